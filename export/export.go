// Package export translates rules to the languages of other engines: LogQL for Loki's
// ruler, PromQL over the counters of crowsnest. It refuses rules that would change their
// meaning, with the reason. It knows rules but no servers.
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

// Options configure an export.
type Options struct {
	// Keep selects rules; nil means all.
	Keep func(*rules.Rule) bool
	// Strict refuses rules that would otherwise be exported with a warning.
	Strict bool
	// Labels are added to every alert that lacks them.
	Labels map[string]string
	// Interval is the interval of the groups; zero means the engine's default.
	Interval time.Duration
	// Episodes makes the rules for Prometheus use the number of open episodes, which
	// every rule has, instead of the matched lines.
	Episodes bool
}

// AlertRule is a rule of another engine. Expr and the values of Labels and Annotations
// are in its language.
type AlertRule struct {
	Alert       string
	Expr        string
	For         time.Duration
	Labels      map[string]string
	Annotations map[string]string
}

// Group holds the exported rules of a pack.
type Group struct {
	Name     string
	Interval time.Duration
	Rules    []AlertRule
}

// Finding is a note for the reader of an export about a rule.
type Finding struct {
	Rule   *rules.Rule
	Reason string
}

// Result is an export, in order of packs and rules.
type Result struct {
	Groups []Group
	// Refused are the rules that were not exported, with all reasons.
	Refused []Finding
	// Warnings describe differences that do not change the alerts.
	Warnings []Finding
}

// Exported returns the number of exported rules.
func (r Result) Exported() int {
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

// Loki exports rules for Loki's ruler. An alert has the same labels as in crowsnest, and
// fires at the first evaluation after crowsnest would have fired it.
func Loki(set *rules.Set, opt Options) Result { return each(set, opt, "crowsnest-", toLoki) }

// Prometheus exports rules over the metrics of crowsnest. Metrics do not distinguish
// keys, so an alert states that a rule fires, not for which object.
func Prometheus(set *rules.Set, opt Options) Result {
	return each(set, opt, "crowsnest-", func(t *translation) { toPrometheus(t, opt.Episodes) })
}

func each(set *rules.Set, opt Options, prefix string, translate func(*translation)) Result {
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
			res.Refused = append(res.Refused, Finding{r, strings.Join(t.refusals, "; ")})
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
			res.Groups = append(res.Groups, Group{Name: prefix + r.Pack, Interval: opt.Interval})
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

// checkStateless refuses rules that need the memory of an episode.
func (t *translation) checkStateless() {
	r := t.rule
	if r.Sequence {
		t.refuse("sequence: a query cannot express the order of lines")
	}
	if r.Clear != nil {
		t.refuse("clear: a query cannot compare the time of a clear line with that of the line that opened the alert")
	}
	if r.Unless != nil {
		t.refuse("unless: `unless on()` ignores the order in time and would also end a firing alert")
	}
	if r.Silent > 0 {
		t.refuse("silent: a query loses a key once its lines are older than the range of the query, and cannot tell silence from a collector that is down")
	}
	if froms := slices.Collect(r.Selectors()); len(froms) > 1 {
		t.refuse("from of a part: a query cannot relate the lines of different streams by their time")
	}
	if r.For > 0 && (r.Count > 1 || r.Distinct != "") {
		t.refuse("for with count: the engine would require the count to be reached for the whole time")
	}
}

// number returns how many lines, or values of distinct, open an episode.
func number(r *rules.Rule) int { return max(r.Count, 1) }
