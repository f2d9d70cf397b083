package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"crowsnest/cli/internal/show"
	"crowsnest/rules"
	"crowsnest/web"
)

// The values of the argument from.
const (
	fromDaemon = "daemon"
	fromPacks  = "packs"
)

type rulesIn struct {
	From     string `json:"from,omitempty" jsonschema:"daemon (default): the rules that it evaluates, with their health. packs: the local packs."`
	Contains string `json:"contains,omitempty" jsonschema:"Only rules whose name, pack or selector contains this text, in any case."`
	Pack     string `json:"pack,omitempty" jsonschema:"Only rules of this pack."`
	Severity string `json:"severity,omitempty" jsonschema:"Only rules of this severity: critical, warning or info."`
	Health   string `json:"health,omitempty" jsonschema:"Only rules of a daemon with this health. blind: no source reads its lines."`
	Offset   int    `json:"offset,omitempty" jsonschema:"next_offset of the answer before."`
	Limit    int    `json:"limit,omitempty" jsonschema:"Most rules to return; default: as many as fit."`
}

// Rule is one rule.
type Rule struct {
	Alert     string     `json:"alert"`
	Pack      string     `json:"pack"`
	Severity  string     `json:"severity"`
	Streams   string     `json:"streams" jsonschema:"Selector of the logs that it reads."`
	Enabled   string     `json:"enabled"`
	Health    string     `json:"health,omitempty" jsonschema:"Of a daemon. ok. blind, unseen: its lines are not read, so its failure would not be seen. held: conclusions from silence wait. given_up, inactive, disabled: it is not evaluated."`
	Why       string     `json:"why,omitempty" jsonschema:"Why the health is not ok, as far as it is known."`
	Followed  *int       `json:"followed_streams,omitempty"`
	Matches   *int64     `json:"matches,omitempty" jsonschema:"Lines that matched since the daemon started."`
	LastMatch *time.Time `json:"last_match,omitempty"`
	Open      *int       `json:"open,omitempty" jsonschema:"Alerts that are pending or firing."`
}

type rulesOut struct {
	Rules      []Rule `json:"rules" items:"1000"`
	Total      int    `json:"total" jsonschema:"Rules that satisfy the filters, of which this answer has a part."`
	NextOffset *int   `json:"next_offset,omitempty" jsonschema:"Offset for the next part; absent: this is the last one."`
	Seen       Seen   `json:"seen"`
	Answer
}

func (s *Server) rules(ctx context.Context, in rulesIn) (*rulesOut, error) {
	var all []Rule
	out := &rulesOut{}
	if in.From == fromPacks {
		set, err := s.cfg.Rules()
		if err != nil {
			return nil, err
		}
		for _, r := range set.Rules {
			all = append(all, localRule(r))
		}
		out.Seen = s.local(s.cfg.RulesName)
	} else {
		a := s.ask(ctx)
		if err := a.begin(); err != nil {
			return nil, err
		}
		running, err := a.rules()
		if err != nil {
			return nil, err
		}
		for _, r := range running {
			all = append(all, ruleOf(r))
		}
		out.Seen = a.seen()
	}
	all = slices.DeleteFunc(all, func(r Rule) bool { return !in.selects(r) })
	out.Total = len(all)
	var err error
	out.Rules, out.NextOffset, err = page(all, in.Offset, in.Limit)
	return out, err
}

func (in rulesIn) selects(r Rule) bool {
	text := strings.ToLower(r.Alert + "\n" + r.Pack + "\n" + r.Streams)
	return strings.Contains(text, strings.ToLower(in.Contains)) && (in.Pack == "" || in.Pack == r.Pack) &&
		(in.Severity == "" || in.Severity == r.Severity) && (in.Health == "" || in.Health == r.Health)
}

// local is what an answer without a daemon can see.
func (s *Server) local(basis string) Seen {
	return seenOf(basis, s.cfg.Now(), nil, nil, "").with("No daemon was asked: nothing here says whether somebody reads such lines, or whether the failure is open.")
}

// with adds a gap.
func (s Seen) with(text string) Seen {
	s.NotSeen, s.Complete = append(s.NotSeen, Gap{Text: text}), false
	return s
}

// runningRule is a rule of a daemon and its pack.
type runningRule struct {
	web.Rule
	pack string
}

func (a *asked) rules() (out []runningRule, err error) {
	data, err := a.get("rules")
	if err != nil {
		return nil, err
	}
	var groups struct{ Groups []web.Group }
	if err := json.Unmarshal(data, &groups); err != nil {
		return nil, fmt.Errorf("the daemon's answer about rules is not understood: %w; its version may differ from %s", err, a.of.cfg.Version)
	}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			out = append(out, runningRule{r, g.Name})
		}
	}
	return out, nil
}

func ruleOf(r runningRule) Rule {
	open := r.Pending + r.Firing
	return Rule{
		Alert: r.Name, Pack: r.pack, Severity: string(r.Severity), Streams: r.From, Enabled: string(r.Mode), Health: r.Health,
		Why: cmp.Or(r.Quarantined, r.Waits, r.Disabled), Followed: &r.Streams, Matches: &r.Matches, LastMatch: r.LastMatch, Open: &open,
	}
}

type ruleIn struct {
	Rule string `json:"rule" jsonschema:"Name of the rule, which is that of its alert."`
	From string `json:"from,omitempty" jsonschema:"packs (default): the local packs. daemon: the rule as a daemon evaluates it, as YAML, with its health."`
}

type ruleOut struct {
	Rule  Rule   `json:"rule"`
	About string `json:"about" max:"20000" jsonschema:"What it matches, when it fires and ends, what to do, its tests, and where its values come from."`
	Seen  Seen   `json:"seen"`
	Answer
}

func (s *Server) rule(ctx context.Context, in ruleIn) (*ruleOut, error) {
	if in.From == fromDaemon {
		return s.runningRule(ctx, in.Rule)
	}
	set, err := s.cfg.Rules()
	if err != nil {
		return nil, err
	}
	r, err := show.Find(set, in.Rule)
	if err != nil {
		return nil, err
	}
	var about bytes.Buffer
	if err := show.Rule(&about, r); err != nil {
		return nil, err
	}
	if err := show.Origin(&about, r); err != nil {
		return nil, err
	}
	return &ruleOut{Rule: localRule(r), About: about.String(), Seen: s.local(s.cfg.RulesName)}, nil
}

func localRule(r *rules.Rule) Rule {
	return Rule{Alert: r.Alert, Pack: r.Pack, Severity: string(r.Severity), Streams: r.From.String(), Enabled: string(r.Mode)}
}

func (s *Server) runningRule(ctx context.Context, name string) (*ruleOut, error) {
	a := s.ask(ctx)
	if err := a.begin(); err != nil {
		return nil, err
	}
	all, err := a.rules()
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		if r.Name == name {
			return &ruleOut{Rule: ruleOf(r), About: r.Source, Seen: a.seen()}, nil
		}
	}
	return nil, fmt.Errorf("the daemon has no rule %s; the tool rules with contains finds names", clean(name, maxValue))
}
