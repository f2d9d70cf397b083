package episodes

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"crowsnest/redact"
	"crowsnest/rules"
)

// identify computes the labels of an episode, which are its identity.
func (e *Engine) identify(ep *episode) {
	r := ep.rs.rule
	by := map[string]string{}
	for i, name := range r.By {
		by[name] = ep.values[i]
	}
	ep.labels = e.labels(r, by)
	if !ep.nameless {
		e.nameIdentity(ep.who, ep.labels)
	}
	ep.print = printOf(ep.labels)
	e.apart(ep)
}

// overflowLabels are the labels of the overflow alert: templates see empty
// values of `by`.
func (e *Engine) overflowLabels(rs *ruleState) map[string]string {
	labels := e.labels(rs.rule, map[string]string{})
	labels["overflow"] = "true"
	labels["resolves"] = "quiet"
	return labels
}

func (e *Engine) labels(r *rules.Rule, by map[string]string) map[string]string {
	labels := maps.Clone(by)
	for _, l := range r.Labels {
		labels[l.Name] = truncate(e.expand(l.Template, rules.TemplateData{Labels: by}), maxValue)
	}
	labels["alertname"] = r.Alert
	labels["severity"] = string(r.Severity)
	labels["resolves"] = r.Resolves()
	maps.DeleteFunc(labels, func(_, v string) bool { return v == "" })
	return labels
}

// expand executes a template and counts a failure.
func (e *Engine) expand(t *rules.Template, data rules.TemplateData) string {
	out, ok := t.Execute(data)
	if !ok {
		e.total.BadTemplate++
	}
	return out
}

// printOf hashes labels in order of their names.
func printOf(labels map[string]string) Fingerprint {
	h := fnv.New64a()
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		h.Write([]byte(name))
		h.Write([]byte{0xff})
		h.Write([]byte(labels[name]))
		h.Write([]byte{0xff})
	}
	return Fingerprint(h.Sum64())
}

// export copies an episode out.
func (e *Engine) export(ep *episode, now int64) Episode {
	rs := ep.rs
	e.copyHit(&ep.last)
	for _, h := range ep.sequence {
		e.copyHit(h)
	}
	x := Episode{
		Fingerprint: ep.print, Rule: rs.rule, Alert: rs.rule.Alert, State: ep.state,
		Silent: rs.rule.Mode == rules.ModeSilent, Labels: ep.labels,
		StartsAt: instant(ep.starts - ep.moved), LastSeen: instant(ep.newest), Written: instant(ep.written),
		Count: ep.lines, Line: e.shown(&ep.last.line), First: e.shown(&ep.first),
		Deadline: instant(ep.deadline(rs)), OnHold: rs.onHold(now), Party: ep.charged(), Origin: ep.logs.String(),
	}
	if ep.fired != 0 {
		x.FiredAt = instant(ep.fired)
	}
	x.Annotations = e.texts(ep, x)
	return x
}

// texts are the rendered annotations of an episode and what they were rendered of.
// Rendering is costly, and a page asks for all open episodes again and again.
type texts struct {
	of     textsOf
	labels map[string]string
	vars   map[string]string
	all    map[string]string
}

// textsOf is what annotations depend on beside labels and variables.
type textsOf struct {
	rule                *rules.Rule
	count               int64
	starts, newest      time.Time
	line, first, origin string
}

// texts returns the annotations of an episode. They are rendered again only if their
// inputs changed. They are shared and read-only.
func (e *Engine) texts(ep *episode, x Episode) map[string]string {
	of := textsOf{x.Rule, x.Count, x.StartsAt, x.LastSeen, x.Line, x.First, x.Origin}
	vars := varsOf(x.Rule, ep.sequence)
	if known := &ep.texts; known.of != of || !maps.Equal(known.vars, vars) || !maps.Equal(known.labels, x.Labels) {
		*known = texts{of, x.Labels, vars, e.annotations(x.Rule, x, vars)}
	}
	return ep.texts.all
}

// shown returns the sample of a line.
func (e *Engine) shown(t *text) string {
	if !t.clean {
		t.s, t.clean = e.sample(t.s), true
	}
	return t.s
}

// sample redacts a line and cuts it, in this order, so that half a secret does
// not survive.
func (e *Engine) sample(line string) string {
	if e.cfg.Redactor != nil {
		line = e.cfg.Redactor.String(line)
	}
	return truncate(line, maxSample)
}

// vars returns what `$vars` holds: the values of the newest trigger's lines. In
// a sequence name_i is the value of step i, and name that of the last step that
// has it.
func varsOf(r *rules.Rule, sequence hits) map[string]string {
	vars := map[string]string{}
	for i, h := range sequence {
		for k, name := range h.names {
			if k >= len(h.values) || h.values[k] == "" {
				continue
			}
			v := h.values[k]
			vars[name] = v
			if r.Sequence {
				vars[name+"_"+strconv.Itoa(i+1)] = v
			}
		}
	}
	return vars
}

// annotations renders the rule's own annotations and adds those that every
// alert has, unless the rule states them.
func (e *Engine) annotations(r *rules.Rule, x Episode, vars map[string]string) map[string]string {
	data := rules.TemplateData{Labels: e.named(r, x.Labels), Vars: vars, Value: x.Count, Line: x.Line}
	out := map[string]string{
		"line": x.Line, "first_line": x.First, "origin": neutral(x.Origin),
		"count":      strconv.FormatInt(x.Count, 10),
		"first_seen": x.StartsAt.Format(time.RFC3339),
		"last_seen":  x.LastSeen.Format(time.RFC3339),
	}
	e.remedy(r, data, out)
	for _, a := range r.Annotations {
		text, ok := a.Template.ExecuteText(data, neutral)
		if !ok {
			e.total.BadTemplate++
		}
		out[a.Name] = text
	}
	maps.DeleteFunc(out, func(_, v string) bool { return v == "" })
	return out
}

// neutral makes a value of a log line one line of text without links and markup.
func neutral(s string) string { return redact.Inert(redact.Sanitise(s)) }

// named returns the labels for texts. A label that is not stated about a file is
// replaced by its name in upper case: a command with an empty value would be run as it
// is.
func (e *Engine) named(r *rules.Rule, labels map[string]string) map[string]string {
	if !e.cfg.Unlabelled {
		return labels
	}
	out := maps.Clone(labels)
	for _, name := range r.By {
		if out[name] == "" {
			out[name] = strings.ToUpper(name)
		}
	}
	return out
}

// remedy adds the remediation, and whether the running version is known to have the
// failure.
func (e *Engine) remedy(r *rules.Rule, data rules.TemplateData, out map[string]string) {
	rem := r.Remediation
	text, failed := rem.Text(data, neutral)
	e.total.BadTemplate += int64(failed)
	out["remediation"] = text
	out["runbook_url"] = rem.RunbookURL
	if len(rem.Affects) > 0 {
		v := rem.Judge(data.Vars["image"])
		out["affected"], out["fixed_in"] = neutral(v.Affected+": "+v.Text), v.FixedIn
	}
}

// exportOverflow copies the overflow alert of a rule out.
func (e *Engine) exportOverflow(rs *ruleState, now int64) Episode {
	o := &rs.over
	x := Episode{
		Fingerprint: o.print, Rule: rs.rule, Alert: rs.rule.Alert, State: StateFiring, Overflow: true,
		Silent: rs.rule.Mode == rules.ModeSilent, Labels: o.labels,
		StartsAt: instant(o.starts - o.moved), FiredAt: instant(o.fired), LastSeen: instant(o.newest),
		Written: instant(o.starts), Count: o.lines,
		Deadline: instant(o.newest + rs.overflowQuiet()), OnHold: rs.onHold(now),
	}
	more := strconv.Itoa(o.keys.Len())
	if o.keys.Len() >= 10*max(rs.rule.Limit, 1) {
		more = "at least " + more
	}
	x.Annotations = map[string]string{
		"summary":     fmt.Sprintf("%s: %s further keys beyond the limit of open episodes", rs.rule.Alert, more),
		"description": fmt.Sprintf("%d triggers found no place: %s. Alerts that are open stay, unless a namespace with fewer needs their place.", o.lines, o.why),
		"count":       strconv.FormatInt(o.lines, 10),
		"first_seen":  x.StartsAt.Format(time.RFC3339),
		"last_seen":   x.LastSeen.Format(time.RFC3339),
	}
	e.remedy(rs.rule, rules.TemplateData{Labels: o.labels, Vars: map[string]string{}}, x.Annotations)
	maps.DeleteFunc(x.Annotations, func(_, v string) bool { return v == "" })
	return x
}
