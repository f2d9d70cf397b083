package episodes

import (
	"time"

	"crowsnest/episodes/internal/instant"
	"crowsnest/episodes/internal/window"
	"crowsnest/internal/quota"
	"crowsnest/rules"
)

// Evicted is a kind of state that was dropped to stay within a bound.
type Evicted string

// Kinds of evictions. Only entries that could still have made an alert fire or kept one from
// firing are counted.
const (
	EvictedWindows Evicted = "windows" // counted lines of a key
	EvictedClears  Evicted = "clears"  // the newest clear line of a key
	EvictedMutes   Evicted = "mutes"   // the unless lines of a key
	EvictedArmed   Evicted = "armed"   // a key of a rule with `silent`, whose silence can no longer be noticed
	EvictedAlerts  Evicted = "alerts"  // an open episode, for which the overflow alert stands
)

// Eviction counts the state that one namespace lost for one rule, because its lines took more
// room than the lines of any other namespace.
type Eviction struct {
	Namespace string // the party; empty for streams without a party, or OtherEvictions for several parties
	Rule      string
	Kind      Evicted
	Count     int64
	Last      time.Time // time of the newest eviction, by the clock
}

// OtherEvictions stands for the namespaces and rules that have no counter of their own.
const OtherEvictions = quota.Others

// Evictions returns the counts of dropped state since New, for a bounded number of
// namespaces and rules, sorted by name.
func (e *Engine) Evictions() []Eviction {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.limits.evictions()
}

func (l *limits) evictions() []Eviction {
	losses := l.losses.All()
	out := make([]Eviction, len(losses))
	for i, x := range losses {
		out[i] = Eviction{x.Tenant, x.Rule, Evicted(x.Kind), x.Count, instant.ToTime(x.Last)}
	}
	return out
}

// countLost counts state of a rule that a party lost.
func (l *limits) countLost(rs *ruleState, party string, kind Evicted) {
	l.losses.Note(party, rs.rule.Alert, string(kind))
}

// quotaClass returns the class of a rule in every pool.
func quotaClass(r *rules.Rule) quota.Class {
	if r.Severity == rules.SeverityCritical {
		return quota.Critical
	}
	return quota.Ordinary
}

// evictedWindow counts an evicted window, unless all its lines are too old to count
// towards a future trigger.
func (rs *ruleState) evictedWindow(_ string, w *keyWindow, party string) {
	rs.stats.Evicted++
	if w.NewestTime() > rs.watermark()-int64(rs.rule.Within) {
		rs.limits.countLost(rs, party, EvictedWindows)
	}
}

// evictedClear counts an evicted clear line, unless it is older than the watermark, because
// then only late lines need it. The windows that it emptied stay empty.
func (rs *ruleState) evictedClear(key string, c window.Clears, party string) {
	rs.dropCleared(key, c.Newest)
	for _, ep := range rs.clear.sharingEpisodes(rs, key) {
		ep.dropLines(c.Newest)
	}
	if c.Newest > rs.watermark() {
		rs.limits.countLost(rs, party, EvictedClears)
	}
}

// evictedMute counts unless lines that were evicted.
func (rs *ruleState) evictedMute(_ string, ts []int64, party string) {
	if u := rs.rule.Unless; u != nil && len(ts) > 0 && ts[len(ts)-1] > rs.watermark()-int64(u.Within) {
		rs.limits.countLost(rs, party, EvictedMutes)
	}
}
