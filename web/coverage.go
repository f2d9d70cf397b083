package web

import (
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/internal/metric"
	"crowsnest/rules"
)

// blindAfter is how long a rule stays covered after the last line of a stream
// that is no longer followed: pods of jobs come and go.
const blindAfter = time.Hour

// coverage maps rules to the streams that they apply to.
type coverage struct {
	streams map[string]int // followed streams by rule
	// sighted are the rules each of whose steps applies to a followed stream.
	sighted map[string]bool
	// filtered is set if a source delivers only lines that a rule may match. Then
	// a rule without a stream is not necessarily blind.
	filtered bool
	now      time.Time

	names   []string                // labels that rules select by
	classes map[string]*streamClass // classes of streams by the values of these labels
}

// streamClass is a set of streams that differ only in labels that no rule
// selects by.
type streamClass struct {
	labels  map[string]string
	streams int
	rules   int // number of rules that apply to the streams
}

// key joins the values of the labels that rules select by.
func (c coverage) key(labels map[string]string) string {
	var key strings.Builder
	for _, name := range c.names {
		key.WriteString(labels[name])
		key.WriteByte(0)
	}
	return key.String()
}

// count sets the number of rules that apply to each stream, and returns the
// sources.
func (c coverage) count(all []Source) []Source {
	for _, src := range all {
		for i, st := range src.Streams {
			if k := c.classes[c.key(st.Labels)]; k != nil {
				src.Streams[i].Rules = k.rules
			}
		}
	}
	return all
}

// newCoverage finds the rules that apply to each stream. It evaluates selectors
// once per class of streams: there may be hundreds of streams and of rules.
func newCoverage(set *rules.Set, all []Source, now time.Time) coverage {
	c := coverage{streams: make(map[string]int, len(set.Rules)), sighted: make(map[string]bool, len(set.Rules)), now: now, classes: map[string]*streamClass{}}
	selected := map[string]bool{"namespace": true} // decides the origin of a line
	for _, r := range set.Rules {
		for from := range r.Selectors() {
			for _, m := range from.Matchers() {
				selected[m.Name] = true
			}
		}
	}
	c.names = slices.Sorted(maps.Keys(selected))
	for _, src := range all {
		c.filtered = c.filtered || src.Filtered
		for _, st := range src.Streams {
			key := c.key(st.Labels)
			if c.classes[key] == nil {
				c.classes[key] = &streamClass{labels: st.Labels}
			}
			c.classes[key].streams++
		}
	}
	for _, r := range set.Rules {
		for _, k := range c.classes {
			if r.Mode != rules.ModeOff && set.Reads(r, k.labels, false) {
				k.rules++
				c.streams[r.Alert] += k.streams
			}
		}
		c.sighted[r.Alert] = c.sees(set, r)
	}
	return c
}

// sees reports whether every step of a rule reads a stream that is followed.
func (c coverage) sees(set *rules.Set, r *rules.Rule) bool {
	for i := range r.Steps {
		reads := false
		for _, k := range c.classes {
			reads = reads || set.Trusts(r, k.labels) && r.Steps[i].From.Matches(k.labels, false)
		}
		if !reads {
			return false
		}
	}
	return true
}

// Health of a rule as far as coverage decides it.
const (
	healthOK     = "ok"
	healthBlind  = "blind"  // a step applies to no stream that is followed or was read within blindAfter
	healthUnseen = "unseen" // the rule received no line, and the source does not list its streams
)

// health returns the health of a rule. lastLine is when a stream of one of its steps was
// last read.
func (c coverage) health(r *rules.Rule, lastLine time.Time) string {
	switch recent := !lastLine.IsZero() && c.now.Sub(lastLine) < blindAfter; {
	case c.sighted[r.Alert], recent:
		return healthOK
	case !c.filtered:
		return healthBlind
	case lastLine.IsZero():
		return healthUnseen
	}
	return healthOK
}

type ruleCoverage struct {
	name    string
	streams int
	blind   bool
}

// Metrics returns the metrics of the coverage of the rules that are evaluated.
func Metrics(view View, now func() time.Time) metric.Collector {
	read := func() []ruleCoverage {
		loaded := view.Rules()
		covered := newCoverage(loaded.Set, view.Sources(), now())
		var out []ruleCoverage
		for _, r := range loaded.Set.Rules {
			if r.Mode != rules.ModeOff {
				out = append(out, ruleCoverage{r.Alert, covered.streams[r.Alert], covered.health(r, loaded.Seen[r.Alert]) == healthBlind})
			}
		}
		return out
	}
	return metric.NewEach(read, []string{"rule"}, func(r ruleCoverage) []string { return []string{r.name} },
		metric.Sparse(metric.Gauge("rule_streams", "Followed streams that the rule applies to. A rule without one has no series.", func(r ruleCoverage) int { return r.streams })),
		metric.Gauge("rule_blind", "Whether the rule, or a step of it, applies to no followed stream and to none that was read within the last hour. Always 0 if a source delivers only lines that a rule may match.",
			func(r ruleCoverage) bool { return r.blind }),
	)
}
