package daemon

import (
	"sync"
	"sync/atomic"
	"time"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// ruleset is what is in force at one time. It is immutable but for when each
// rule last saw a line.
type ruleset struct {
	set     *rules.Set
	program *matcher.Program
	seen    map[*rules.Rule]*atomic.Int64 // ns since 1970
	// together are the combinations of rules that streams have, by the start of
	// the list that the program has of them: a block touches one number and not
	// one for each of its rules.
	together sync.Map // **rules.Rule to *seenTogether
	many     atomic.Int64
	most     int64 // of them that are remembered

	digests sync.Once
	digest  map[string]string // see finds
}

// seenTogether is when some rules last saw a line.
type seenTogether struct {
	rules []*rules.Rule
	at    atomic.Int64 // ns since 1970
}

// maxTogether is the most combinations that are remembered; a program forgets
// those that it has not used for long, and makes other lists for them.
const maxTogether = 2048

func newRuleset(set *rules.Set) (*ruleset, error) {
	program, err := matcher.CompileTimed(set, stopwatch(time.Now()))
	if err != nil {
		return nil, err
	}
	rs := &ruleset{set: set, program: program, most: maxTogether, seen: make(map[*rules.Rule]*atomic.Int64, len(set.Rules))}
	for _, r := range set.Rules {
		rs.seen[r] = new(atomic.Int64)
	}
	return rs, nil
}

// stopwatch returns the time since it was made, by the monotonic clock.
func stopwatch(began time.Time) func() time.Duration {
	return func() time.Duration { return time.Since(began) }
}

// saw notes that the rules of a stream had a line to look at.
func (rs *ruleset) saw(s *matcher.Stream, now time.Time) {
	list := rs.program.Rules(s)
	if len(list) == 0 {
		return
	}
	t, known := rs.together.Load(&list[0])
	if !known {
		if t, known = rs.together.LoadOrStore(&list[0], &seenTogether{rules: list}); !known && rs.many.Add(1) > rs.most {
			rs.forget(now)
		}
	}
	t.(*seenTogether).at.Store(now.UnixNano())
}

// sawRule notes that a rule had a line elsewhere.
func (rs *ruleset) sawRule(r *rules.Rule, now time.Time) {
	if at := rs.seen[r]; at != nil {
		at.Store(now.UnixNano())
	}
}

// forget forgets the combinations and keeps what they say of each rule.
func (rs *ruleset) forget(now time.Time) {
	rs.together.Range(func(list, t any) bool {
		for _, r := range t.(*seenTogether).rules {
			if ns := t.(*seenTogether).at.Load(); rs.seen[r] != nil && ns > rs.seen[r].Load() {
				rs.seen[r].Store(min(ns, now.UnixNano()))
			}
		}
		rs.together.Delete(list)
		rs.many.Add(-1)
		return true
	})
}

// lastSeen returns when each rule last saw a line, by name.
func (rs *ruleset) lastSeen() map[string]time.Time {
	newest := make(map[*rules.Rule]int64, len(rs.seen))
	for r, at := range rs.seen {
		newest[r] = at.Load()
	}
	rs.together.Range(func(_, t any) bool {
		ns := t.(*seenTogether).at.Load()
		for _, r := range t.(*seenTogether).rules {
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
