package episodes

import (
	"time"

	"crowsnest/episodes/internal/instant"
	"crowsnest/rules"
)

// RuleStats counts events of one rule since New. The counters never decrease.
type RuleStats struct {
	Matches     int64     // number of lines that matched `match` or a step
	LastMatch   time.Time // event time of the newest of these lines; zero if there was none
	Repeats     int64     // number of lines that had been read before
	Refused     int64     // number of triggers beyond the limit of the rule
	MissingBy   int64     // number of trigger lines that lack a value of `by`
	MissingSame int64     // number of clear and unless lines that lack a value of `same`
	Evicted     int64     // number of windows that were dropped to make room
}

// Totals counts events that do not belong to one rule.
type Totals struct {
	Late        int64 // number of lines older than the watermark
	Future      int64 // number of lines too far ahead of the clock
	SeenEvicted int64 // number of fingerprints that were dropped to make room
	BadTemplate int64 // number of templates that could not be rendered
}

// Stats are the counters of an engine.
type Stats struct {
	Totals
	Seen int // number of remembered fingerprints
	// Evictions counts evicted state that could have changed an alert. It lists a bounded number of namespaces and
	// rules.
	Evictions []Eviction
	Rules     []RuleStatus
}

// RuleStatus is the state of one rule.
type RuleStatus struct {
	Rule *rules.Rule
	RuleStats
	Pending, Firing int
	Overflow        bool
	OnHold          bool // whether negative conclusions are on hold
	Windows         int
	Armed           int // number of keys of a rule with `silent` whose silence would be a failure
	// Inactive is set if no source can serve the rule.
	Inactive bool
	// Watermark is the event time up to which all lines of the rule's sources were read. Zero
	// means unknown.
	Watermark time.Time
}

// Stats returns a copy of all counters, in the order of the rule set.
func (e *Engine) Stats(now time.Time) Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := Stats{Totals: e.total, Seen: e.seen.Len(), Evictions: e.limits.evictions()}
	s.SeenEvicted, s.BadTemplate = e.seen.Evicted, e.renderer.FailedTemplates()
	s.Rules = make([]RuleStatus, 0, len(e.order))
	at := instant.FromTime(now)
	for _, rs := range e.order {
		st := RuleStatus{
			Rule: rs.rule, RuleStats: rs.stats, Overflow: rs.overflow.active, OnHold: rs.groups.onHold(at),
			Pending: rs.pending, Firing: len(rs.open) - rs.pending,
			Windows: rs.windows.Used(), Inactive: !rs.groups.steps.IsServed(),
		}
		if rs.armed != nil {
			st.Armed = rs.armed.n
		}
		if st.Matches > 0 {
			st.LastMatch = instant.ToTime(rs.newest)
		}
		if w := rs.groups.all.Watermark(); w > 0 {
			st.Watermark = instant.ToTime(w)
		}
		s.Rules = append(s.Rules, st)
	}
	return s
}

// UnreadRule is a rule with open episodes that wait for lines that no source reads.
type UnreadRule struct {
	Rule      string
	Selectors []string // selectors of the parts whose streams no source reads
	Episodes  int      // number of pending and firing episodes
}

// UnreadRules returns the rules with open episodes that wait for lines that no source reads, in the order of the rule
// set.
func (e *Engine) UnreadRules() []UnreadRule {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []UnreadRule
	for _, rs := range e.order {
		if len(rs.open) == 0 || len(rs.groups.unread) == 0 {
			continue
		}
		u := UnreadRule{Rule: rs.rule.Alert, Episodes: len(rs.open)}
		for _, from := range rs.groups.unread {
			u.Selectors = append(u.Selectors, from.String())
		}
		out = append(out, u)
	}
	return out
}
