// Package export translates rules to the languages of other engines: LogQL for Loki's ruler, and PromQL over the
// metrics of crowsnest. It refuses a rule, with the reason, if a translation would change the meaning of the rule. The
// package contacts no servers.
package export

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"crowsnest/rules"
)

// Options configures an export.
type Options struct {
	// Keep selects rules. Nil selects all rules.
	Keep func(*rules.Rule) bool
	// Strict refuses rules that would otherwise be exported with a warning.
	Strict bool
	// Labels are added to every alert that does not set them itself.
	Labels map[string]string
	// Interval is the evaluation interval of the groups. Zero means the engine's default.
	Interval time.Duration
	// Episodes selects the metric for Prometheus rules. If Episodes is set, the exported rules use the number of firing
	// episodes, which works for every rule. Otherwise they use the number of matched lines.
	Episodes bool
}

// AlertRule is an alerting rule of another engine. Expr and the values of Labels and
// Annotations are in the engine's languages.
type AlertRule struct {
	Alert       string
	Expr        string
	For         time.Duration
	Labels      map[string]string
	Annotations map[string]string
}

// Group contains the exported rules of a pack.
type Group struct {
	Name     string
	Interval time.Duration
	Rules    []AlertRule
}

// Finding is a note about a rule, for people who read the export.
type Finding struct {
	Rule   *rules.Rule
	Reason string
}

// Result is the result of an export, in the order of packs and rules.
type Result struct {
	Groups []Group
	// RefusedRules are the rules that were not exported, each with all reasons.
	RefusedRules []Finding
	// Warnings describe differences that do not affect when alerts fire.
	Warnings []Finding
}

// CountExported returns the number of exported rules.
func (r Result) CountExported() int {
	n := 0
	for _, g := range r.Groups {
		n += len(g.Rules)
	}
	return n
}

type translation struct {
	rule     *rules.Rule
	set      *rules.Set
	out      AlertRule
	refusals []string
	warnings []string
}

func (t *translation) refuse(format string, args ...any) {
	t.refusals = append(t.refusals, fmt.Sprintf(format, args...))
}

func (t *translation) warn(format string, args ...any) {
	t.warnings = append(t.warnings, fmt.Sprintf(format, args...))
}

// LokiRules exports rules for Loki's ruler. An alert has the same labels as the alert of crowsnest. It fires at the
// first evaluation after the time at which the alert of crowsnest would fire.
func LokiRules(set *rules.Set, opt Options) Result {
	return exportEach(set, opt, toLoki)
}

// PrometheusRules exports rules over the metrics of crowsnest. The metrics do not distinguish keys, so an alert states
// that a rule fires, but not for which object.
func PrometheusRules(set *rules.Set, opt Options) Result {
	return exportEach(set, opt, func(t *translation) { toPrometheus(t, opt.Episodes) })
}

func exportEach(set *rules.Set, opt Options, translate func(*translation)) Result {
	var res Result
	groups := map[string]int{}
	for _, r := range set.Rules {
		if opt.Keep != nil && !opt.Keep(r) {
			continue
		}
		t := &translation{rule: r, set: set, out: AlertRule{Alert: r.Alert, For: r.For}}
		t.checkMode()
		if len(t.refusals) == 0 {
			translate(t)
		}
		if len(r.Causes) > 0 && len(t.refusals) == 0 {
			t.warn("symptom_of is omitted: the engine does not know which alerts are symptoms of others")
		}
		if opt.Strict {
			t.refusals, t.warnings = append(t.refusals, t.warnings...), nil
		}
		if len(t.refusals) > 0 {
			res.RefusedRules = append(res.RefusedRules, Finding{r, strings.Join(t.refusals, "; ")})
			continue
		}
		for _, w := range t.warnings {
			res.Warnings = append(res.Warnings, Finding{r, w})
		}
		for _, name := range slices.Sorted(maps.Keys(opt.Labels)) {
			_, has := t.out.Labels[name]
			switch {
			case has || slices.Contains(r.By, name):
			case slices.Contains(rules.DefaultIdentity, name):
				t.out.Labels[name] = "{{ or $labels." + name + " " + strconv.Quote(opt.Labels[name]) + " }}"
			default:
				t.out.Labels[name] = opt.Labels[name]
			}
		}
		i, known := groups[r.Pack]
		if !known {
			i = len(res.Groups)
			groups[r.Pack] = i
			res.Groups = append(res.Groups, Group{Name: "crowsnest-" + r.Pack, Interval: opt.Interval})
		}
		res.Groups[i].Rules = append(res.Groups[i].Rules, t.out)
	}
	return res
}

func (t *translation) checkMode() {
	switch t.rule.Mode {
	case rules.ModeOff:
		why := "it is disabled"
		if t.rule.Disabled != "" {
			why += ": " + t.rule.Disabled
		}
		t.refuse("%s", why)
	case rules.ModeSilent:
		t.refuse("enabled is silent: it counts and does not alert")
	}
}

// checkStateless refuses rules whose episodes need state that metrics or queries do not have.
func (t *translation) checkStateless() {
	r := t.rule
	for _, x := range []struct {
		has    bool
		reason string
	}{
		{r.Sequence, "sequence: a query cannot express the order of lines"},
		{r.Clear != nil, "clear: a query cannot compare the time of a clear line with that of the line that opened the alert"},
		{r.Unless != nil, "unless: `unless on()` ignores the order in time and would also end a firing alert"},
		{r.Silent > 0, "silent: a query loses a key once its lines are older than the range of the query, and cannot tell silence from a collector that is down"},
		{len(slices.Collect(r.Selectors())) > 1, "from of a part: a query cannot relate the lines of different streams by their time"},
		{r.For > 0 && (r.Count > 1 || r.Distinct != ""), "for with count: the engine would require the count to be reached for the whole time"},
	} {
		if x.has {
			t.refuse("%s", x.reason)
		}
	}
}

// openingCount returns the number of lines, or of different values of `distinct`, that open an episode.
func openingCount(r *rules.Rule) int { return max(r.Count, 1) }
