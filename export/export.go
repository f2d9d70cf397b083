// Package export writes rules in the language of other engines: LogQL for Loki's
// ruler, PromQL over the counters of crowsnest. What would not mean the same
// there is refused, with the reason. It knows the rules and no server.
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

// Options say what is exported.
type Options struct {
	// Keep chooses rules; nil: all.
	Keep func(*rules.Rule) bool
	// Strict refuses what is exported with a warning otherwise.
	Strict bool
	// Labels are added to every alert that does not have them.
	Labels map[string]string
	// Interval is that of the groups; 0: the engine's own.
	Interval time.Duration
	// Episodes makes rules for Prometheus of the number of open episodes, which
	// every rule has, in the place of the matched lines.
	Episodes bool
}

// AlertRule is one rule of another engine. Expr, the values of Labels and those
// of Annotations are in its language.
type AlertRule struct {
	Alert       string
	Expr        string
	For         time.Duration
	Labels      map[string]string
	Annotations map[string]string
}

// Group is what was exported of one pack.
type Group struct {
	Name     string
	Interval time.Duration
	Rules    []AlertRule
}

// Finding is something that the reader of an export has to know of a rule.
type Finding struct {
	Rule   *rules.Rule
	Reason string
}

// Result is an export. Its order is that of packs and rules.
type Result struct {
	Groups []Group
	// Refused are the rules that are not exported, each with every reason.
	Refused []Finding
	// Warnings tell what differs although the alerts are the same.
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

// translation is one rule on its way.
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

// Loki exports rules for Loki's ruler. An alert has the labels that crowsnest
// gives it, and fires at the first evaluation at which crowsnest would have
// fired it.
func Loki(set *rules.Set, opt Options) Result { return each(set, opt, "crowsnest-", toLoki) }

// Prometheus exports rules over the metrics of crowsnest. Metrics do not tell
// one key from another, so an alert says that a rule fires, not for whom.
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

// checkMode refuses rules that do not alert.
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

// checkStateless refuses what needs the memory of an episode.
func (t *translation) checkStateless() {
	r := t.rule
	if r.Sequence {
		t.refuse("sequence: the order of lines cannot be asked for")
	}
	if r.Clear != nil {
		t.refuse("clear: a line that ends the alert would have to be newer than the one that opened it, and no query tells which is")
	}
	if r.Unless != nil {
		t.refuse("unless: `unless on()` has no order in time and would also end an alert that fires")
	}
	if r.For > 0 && (r.Count > 1 || r.Distinct != "") {
		t.refuse("for together with count: the engine would want the count to be reached all that time")
	}
}

// number is how many lines, or values of distinct, open an episode.
func number(r *rules.Rule) int { return max(r.Count, 1) }
