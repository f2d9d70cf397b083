package inforce

import (
	"sync"
	"sync/atomic"
	"time"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// Rules is an immutable set of rules with its compiled program. It also records when each rule last saw a line. It is
// safe for concurrent use.
type Rules struct {
	Set     *rules.Set
	Program *matcher.Program
	// Digests returns the read-only digests of the rules that are not off, by name.
	Digests func() map[string]string

	lastLines map[*rules.Rule]*atomic.Int64 // time of each rule's last line in nanoseconds since 1970
	// combinations holds each combination of rules that applies to some stream, by the address of the program's list of
	// these rules. A block of lines then updates the time of one combination, and not the time of each rule in the
	// combination.
	combinations sync.Map // **rules.Rule to *ruleCombination
	many         atomic.Int64
	maxMany      int64
}

// ruleCombination holds the time of the last line of any stream to which exactly these rules apply.
type ruleCombination struct {
	rules    []*rules.Rule
	lastLine atomic.Int64 // nanoseconds since 1970
}

// maxTogether is the maximum number of remembered combinations. The number must be limited, because a program forgets
// unused combinations and makes new lists for them later.
const maxTogether = 2048

// New compiles the rules of a set.
func New(set *rules.Set) (*Rules, error) {
	began := time.Now()
	program, err := matcher.CompileTimed(set, func() time.Duration { return time.Since(began) })
	if err != nil {
		return nil, err
	}
	rs := &Rules{Set: set, Program: program, maxMany: maxTogether, lastLines: make(map[*rules.Rule]*atomic.Int64, len(set.Rules))}
	for _, r := range set.Rules {
		rs.lastLines[r] = new(atomic.Int64)
	}
	rs.Digests = sync.OnceValue(func() map[string]string {
		out := make(map[string]string, len(set.Rules))
		for _, r := range set.Rules {
			if r.Mode != rules.ModeOff {
				out[r.Alert] = r.MatchHash()
			}
		}
		return out
	})
	return rs, nil
}

// NoteLine records that all rules of the stream have seen a line at time now.
func (rs *Rules) NoteLine(s *matcher.Stream, now time.Time) {
	list := rs.Program.Rules(s)
	if len(list) == 0 {
		return
	}
	t, known := rs.combinations.Load(&list[0])
	if !known {
		if t, known = rs.combinations.LoadOrStore(&list[0], &ruleCombination{rules: list}); !known && rs.many.Add(1) > rs.maxMany {
			rs.forgetStreams(now)
		}
	}
	t.(*ruleCombination).lastLine.Store(now.UnixNano())
}

// SawRule records that the rule has seen a line in another process.
func (rs *Rules) SawRule(r *rules.Rule, now time.Time) {
	if at := rs.lastLines[r]; at != nil {
		at.Store(now.UnixNano())
	}
}

func (rs *Rules) forgetStreams(now time.Time) {
	rs.combinations.Range(func(list, t any) bool {
		for _, r := range t.(*ruleCombination).rules {
			if ns := t.(*ruleCombination).lastLine.Load(); rs.lastLines[r] != nil && ns > rs.lastLines[r].Load() {
				rs.lastLines[r].Store(min(ns, now.UnixNano()))
			}
		}
		rs.combinations.Delete(list)
		rs.many.Add(-1)
		return true
	})
}

// LastSeen returns the time of each rule's last line, by name of the rule.
func (rs *Rules) LastSeen() map[string]time.Time {
	newest := make(map[*rules.Rule]int64, len(rs.lastLines))
	for r, at := range rs.lastLines {
		newest[r] = at.Load()
	}
	rs.combinations.Range(func(_, t any) bool {
		ns := t.(*ruleCombination).lastLine.Load()
		for _, r := range t.(*ruleCombination).rules {
			newest[r] = max(newest[r], ns)
		}
		return true
	})
	out := make(map[string]time.Time, len(newest))
	for r, ns := range newest {
		if ns > 0 {
			out[r.Alert] = time.Unix(0, ns).UTC()
		}
	}
	return out
}
