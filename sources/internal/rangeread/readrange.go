package rangeread

import (
	"context"
	"fmt"
	"time"

	"crowsnest/internal/pause"
	"crowsnest/matcher"
	"crowsnest/rules"
)

// maxTries is the number of successive failures after which ReadRange gives up.
const maxTries = 6

// Range is the input of ReadRange.
type Range struct {
	// From is the first time of the range, and To is the first time after it.
	From, To time.Time
	// Rules are the rules for which lines are read. ReadRange omits lines that none of these rules can match, as far as
	// the server can filter lines. If Rules is nil, all lines of the configured selector are read.
	Rules *rules.Set
	// OnLost is called for entries that cannot be read. It gets a reason and a description of the place. It may be nil.
	OnLost func(reason, where string)
}

// ReadRange reads a time range and passes each line to f once. It reads one tenant after the other, and the lines of a
// tenant in order of time. From cfg, it uses url, http_config, tenants, selector, labels, limit and timeout. Lines with
// equal labels have the same stream. The text of a record is valid during the call of f.
//
// A failed request is repeated a few times. ReadRange returns the first error of f, the error
// of the last try, or the error of ctx. cfg must be valid.
func ReadRange(ctx context.Context, d *Dialect, cfg Config, rg Range, f func(s *matcher.Stream, rec matcher.Record) error) error {
	for _, src := range New(d, cfg) {
		if err := readTenant(ctx, src, rg, f); err != nil {
			return fmt.Errorf("read from %s %s: %w", d.Server, src.name, err)
		}
	}
	return nil
}

func readTenant(ctx context.Context, src *Source, rg Range, give func(*matcher.Stream, matcher.Record) error) error {
	defer src.rangeReader.client.Close()
	src.rangeReader.whole = true
	src.rangeReader.failed = func(*Failure) {}
	var given error // first error of f
	src.accept = func(st *stream, e *Entry, key uint64) {
		if given == nil {
			src.memory.add(e.Time, key)
			given = give(st.s, matcher.Record{Time: time.Unix(0, e.Time).UTC(), Text: e.Line})
		}
	}
	src.rangeReader.onLost = func(reason, query string, t int64) {
		if rg.OnLost != nil {
			rg.OnLost(reason, lossPlace(query, t))
		}
	}
	src.plannedRules = rg.Rules
	if src.plannedRules == nil {
		src.plannedRules = &rules.Set{}
	}
	src.plan = src.planner.makePlan(src.plannedRules, src.maxQuery, rg.Rules != nil && !src.dialect.ReadsAll)
	if rg.Rules != nil && len(src.plan.queries) == 0 {
		return nil // no rule can match a line of this server
	}
	if len(src.plan.queries) != 1 { // several queries would be read one after the other, and not in order of time
		src.plan.queries = []string{src.planner.renderQuery(nil, "")}
	}
	c := cursor{query: src.makeUnique(src.plan.queries[0], src.cfg.Clock().UnixNano()), at: rg.From.UnixNano(), end: rg.To.UnixNano()}
	var p pace
	for !c.isDone() {
		fail := src.rangeReader.step(ctx, &c)
		switch {
		case given != nil:
			return given
		case ctx.Err() != nil:
			return ctx.Err()
		case fail == nil:
			p.fails = 0
			src.memory.raiseFloor(c.at)
			continue
		case needsOperator(fail.Reason) || p.fails >= maxTries:
			return fail.Err
		}
		if !pause.Sleep(ctx, p.delayAfter(fail), nil) {
			return ctx.Err()
		}
	}
	return nil
}
