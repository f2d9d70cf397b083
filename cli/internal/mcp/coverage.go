package mcp

import (
	"context"
	"time"

	"crowsnest/casefile"
)

type coverageIn struct {
	Offset int `json:"offset,omitempty" jsonschema:"next_offset of the answer before."`
}

// Source is one source of a daemon.
type Source struct {
	Name     string     `json:"name"`
	State    string     `json:"state" jsonschema:"up, down, or idle with the reason."`
	Streams  int        `json:"streams"`
	Lines    int64      `json:"lines"`
	ReadUpTo *time.Time `json:"read_up_to,omitempty"`
}

type coverageOut struct {
	Verdict    string   `json:"verdict"`
	Sources    []Source `json:"sources"`
	Rules      int      `json:"rules" jsonschema:"Rules that are loaded."`
	NotSeen    []Gap    `json:"not_seen" items:"1000" jsonschema:"All that could not be seen."`
	NextOffset *int     `json:"next_offset,omitempty" jsonschema:"Offset for the next part of not_seen; absent: this is the last one."`
	Seen       Seen     `json:"seen" jsonschema:"Its not_seen is empty: the list is above."`
	Answer
}

func (s *Server) coverage(ctx context.Context, in coverageIn) (*coverageOut, error) {
	a := s.ask(ctx)
	if err := a.begin(); err != nil {
		return nil, err
	}
	c := casefile.CoverageOf(a.daemon(""))
	all := []Gap{}
	for _, g := range c.NotSeen {
		all = append(all, gapOf(g, len(g.Items)))
	}
	out := &coverageOut{Rules: c.Rules, Sources: []Source{}, Seen: a.seen()}
	limits := out.Seen.limits()
	out.Seen.NotSeen, out.Seen.Omitted = []Gap{}, ""
	for _, x := range c.Sources {
		out.Sources = append(out.Sources, Source{Name: x.Name, State: x.State, Streams: x.Streams, Lines: x.Lines, ReadUpTo: x.Until})
	}
	var err error
	if out.NotSeen, out.NextOffset, err = page(all, in.Offset, 0); err != nil {
		return nil, err
	}
	out.Verdict = "Everything that is configured is read. " + limits
	if !out.Seen.Complete {
		out.Verdict = "Failures can be missed: not_seen says where."
	}
	return out, nil
}
