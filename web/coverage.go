package web

import (
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/internal/metric"
	"crowsnest/rules"
)

// blindAfter is how long a rule counts as covered after its streams have ended, because pods of jobs come and go.
const blindAfter = time.Hour

// coverage states to which streams each rule applies.
type coverage struct {
	streams map[string]int // number of followed streams, by rule
	// sighted contains the rules of which every step applies to at least one followed stream.
	sighted map[string]bool
	// filtered is set if a source delivers only lines that rules may match. A rule without a stream may then still be
	// able to see its lines.
	filtered bool
	now      time.Time

	names   []string                // names of the labels that selectors of rules use
	classes map[string]*streamClass // classes of streams; the key is made of the values of these labels
}

// streamClass is a set of streams that are equal in all labels that selectors use.
type streamClass struct {
	labels  map[string]string
	streams int
	rules   int // number of rules that apply to these streams
}

// labelsKey joins the values of the labels that selectors use to the key of a class.
func (c coverage) labelsKey(labels map[string]string) string {
	var key strings.Builder
	for _, name := range c.names {
		key.WriteString(labels[name])
		key.WriteByte(0)
	}
	return key.String()
}

// countRules sets the number of rules that apply to each stream, and returns the sources.
func (c coverage) countRules(all []Source) []Source {
	for _, src := range all {
		for i, st := range src.Streams {
			if k := c.classes[c.labelsKey(st.Labels)]; k != nil {
				src.Streams[i].Rules = k.rules
			}
		}
	}
	return all
}

// newCoverage finds the rules that apply to each stream. It evaluates selectors only once per
// class of streams, because there may be hundreds of streams and rules.
func newCoverage(set *rules.Set, all []Source, now time.Time) coverage {
	c := coverage{streams: make(map[string]int, len(set.Rules)), sighted: make(map[string]bool, len(set.Rules)), now: now, classes: map[string]*streamClass{}}
	selected := map[string]bool{"namespace": true} // it also determines whether a line is trusted
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
			key := c.labelsKey(st.Labels)
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
		c.sighted[r.Alert] = c.seesRule(set, r)
	}
	return c
}

func (c coverage) seesRule(set *rules.Set, r *rules.Rule) bool {
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

// Values for the health of a rule that follow from coverage.
const (
	healthOK     = "ok"
	healthBlind  = "blind"  // a step of the rule applies to no followed stream, and to no stream that was read within blindAfter
	healthUnseen = "unseen" // the rule has had no line, and the source does not list its streams
)

// ruleHealth returns the health of a rule. lastLine is the time of the newest line in the streams to which a step of
// the rule applies.
func (c coverage) ruleHealth(r *rules.Rule, lastLine time.Time) string {
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

// Metrics returns the metrics about the coverage of all evaluated rules.
func Metrics(view View, now func() time.Time) metric.Collector {
	read := func() []ruleCoverage {
		loaded := view.Rules()
		covered := newCoverage(loaded.Set, view.Sources(), now())
		var out []ruleCoverage
		for _, r := range loaded.Set.Rules {
			if r.Mode != rules.ModeOff {
				out = append(out, ruleCoverage{r.Alert, covered.streams[r.Alert], covered.ruleHealth(r, loaded.LastLines[r.Alert]) == healthBlind})
			}
		}
		return out
	}
	return metric.NewEach(read, []string{"rule"}, func(r ruleCoverage) []string { return []string{r.name} },
		metric.OmitZeros(metric.Gauge("rule_streams", "Followed streams that the rule applies to. A rule without one has no series.", func(r ruleCoverage) int { return r.streams })),
		metric.Gauge("rule_blind", "Whether the rule, or a step of it, applies to no followed stream and to none that was read within the last hour. Always 0 if a source delivers only lines that a rule may match.",
			func(r ruleCoverage) bool { return r.blind }),
	)
}
