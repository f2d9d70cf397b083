package importer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"crowsnest/internal/yamltext"
)

type rule struct {
	alert, from string
	match       pattern
	sequence    []pattern // steps of a sequence; if it is set, match is not used
	count       int       // number of matching lines that make the rule fire; zero means one
	within      time.Duration
	distinct    string
	by          []string
	clear       *pattern
	unless      *pattern
	muteBefore  time.Duration // time before the trigger in which a line of `unless` mutes the alert
	wait        time.Duration // value of `for`
	keep        time.Duration // value of `keep_firing_for`; zero for the default
	expire      time.Duration
	severity    string
	annotations []entry
	summary     string // summary of the remediation
	runbook     string
	steps       []string
	affects     []affects
	tests       []test

	comments []string // comments before the rule
	warnings []string
	ifFails  string // reason for refusing the rule if its tests fail
}

// entry is a name with a text in an ordered list.
type entry struct{ name, value string }

type affects struct{ component, image, versions string }

type test struct {
	name   string
	stream []entry
	lines  []testLine
	at     time.Duration
	fires  bool
}

type testLine struct {
	at     time.Duration
	text   string
	repeat int // number of times that the line is repeated; zero means once
	every  time.Duration
}

func (r *rule) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(r.warnings, text) {
		r.warnings = append(r.warnings, text)
	}
}

// annotate adds an annotation, unless value is empty.
func (r *rule) annotate(name, value string) {
	if value = strings.TrimSpace(value); value != "" {
		r.annotations = append(r.annotations, entry{name, value})
	}
}

// pattern is a condition on a line. A line must match all its parts.
type pattern struct {
	text  string
	regex string
	any   []pattern
	not   *pattern
}

// onlyText returns the text of a pattern if the pattern consists of a single text.
func (m *pattern) onlyText() (string, bool) {
	return m.text, m.text != "" && m.regex == "" && m.any == nil && m.not == nil
}

// anyPattern returns a pattern that matches if at least one of ms matches.
func anyPattern(ms []pattern) pattern {
	if len(ms) == 1 {
		return ms[0]
	}
	return pattern{any: ms}
}

// asListItem returns the rule as an item of a YAML list.
func (r *rule) asListItem() string {
	var b strings.Builder
	for _, c := range r.comments {
		b.WriteString("# " + oneLine(c) + "\n")
	}
	for _, c := range r.warnings {
		b.WriteString("# Check: " + oneLine(c) + "\n")
	}
	out := yamltext.Map{{Key: "alert", Value: yamltext.Raw(r.alert)}, {Key: "from", Value: r.from}, {Key: "origin", Value: yamltext.Raw("any")}}
	if len(r.sequence) > 0 {
		var steps yamltext.List
		for i := range r.sequence {
			steps = append(steps, r.sequence[i].anywhere())
		}
		out.Add("sequence", steps)
	} else {
		out.Add("match", r.match.anywhere())
	}
	if r.count > 1 {
		out.Add("count", yamltext.Raw(fmt.Sprint(r.count)))
	}
	out.Add("within", optionalDuration(r.within))
	if r.distinct != "" {
		out.Add("distinct", yamltext.Raw(yamltext.QuoteName(r.distinct)))
	}
	if r.clear != nil {
		out.Add("clear", r.clear.anywhere())
	}
	if r.unless != nil {
		out.Add("unless", append(r.unless.anywhere(), yamltext.Entry{Key: "within", Value: duration(r.muteBefore)}))
	}
	out.Add("for", optionalDuration(r.wait))
	out.Add("keep_firing_for", optionalDuration(r.keep))
	out.Add("expire", optionalDuration(r.expire))
	if len(r.by) > 0 {
		names := make([]string, len(r.by))
		for i, n := range r.by {
			names[i] = yamltext.QuoteName(n)
		}
		out.Add("by", yamltext.Raw("["+strings.Join(names, ", ")+"]"))
	}
	out.Add("severity", yamltext.Raw(r.severity))
	var annotations yamltext.Map
	for _, a := range r.annotations {
		annotations.Add(yamltext.QuoteName(a.name), a.value)
	}
	out.Add("annotations", annotations)
	out.Add("remediation", r.writeRemediation())
	out.Add("tests", r.writeTests())
	return b.String() + yamltext.List{out}.String()
}

func duration(d time.Duration) yamltext.Raw {
	if d%time.Millisecond != 0 {
		d = (d/time.Millisecond + 1) * time.Millisecond
	}
	return yamltext.Raw(model.Duration(d).String())
}

func optionalDuration(d time.Duration) yamltext.Raw {
	if d <= 0 {
		return ""
	}
	return duration(d)
}

// anywhere returns the YAML of a pattern that searches the whole line, as a CRE does.
func (m *pattern) anywhere() yamltext.Map {
	return append(yamltext.Map{{Key: "in", Value: yamltext.Raw("anywhere")}}, m.asMap()...)
}

func (m *pattern) asMap() (out yamltext.Map) {
	if m.text != "" {
		out.Add("contains", yamltext.Raw(yamltext.Quote(m.text)))
	}
	if m.regex != "" {
		out.Add("regex", yamltext.Raw(yamltext.Quote(m.regex)))
	}
	var branches yamltext.List
	for i := range m.any {
		branches = append(branches, m.any[i].asValue())
	}
	out.Add("any", branches)
	if m.not != nil {
		out.Add("not", m.not.asValue())
	}
	return out
}

// asValue returns the YAML of a pattern that is nested in another pattern.
func (m *pattern) asValue() any {
	if text, ok := m.onlyText(); ok {
		return yamltext.Raw(yamltext.Quote(text))
	}
	return m.asMap()
}

func (r *rule) writeRemediation() (out yamltext.Map) {
	out.Add("summary", r.summary)
	out.Add("runbook_url", r.runbook)
	var steps, affected yamltext.List
	for _, s := range r.steps {
		steps = append(steps, s)
	}
	for _, a := range r.affects {
		affected = append(affected, yamltext.Raw(fmt.Sprintf("{component: %s, image: %s, versions: %s}", yamltext.Quote(a.component), yamltext.Quote(a.image), yamltext.Quote(a.versions))))
	}
	out.Add("steps", steps)
	out.Add("affects", affected)
	return out
}

func (r *rule) writeTests() (out yamltext.List) {
	for _, t := range r.tests {
		labels := make([]string, len(t.stream))
		for i, l := range t.stream {
			labels[i] = yamltext.QuoteName(l.name) + ": " + yamltext.Quote(l.value)
		}
		var lines yamltext.List
		for _, l := range t.lines {
			repeat := ""
			if l.repeat > 1 {
				repeat = fmt.Sprintf(", repeat: %d, every: %s", l.repeat, duration(l.every))
			}
			lines = append(lines, yamltext.Raw(fmt.Sprintf("{at: %s, line: %s%s}", duration(l.at), yamltext.Quote(l.text), repeat)))
		}
		firing := "none"
		if t.fires {
			firing = "[{alertname: " + r.alert + "}]"
		}
		out = append(out, yamltext.Map{
			{Key: "name", Value: t.name},
			{Key: "stream", Value: yamltext.Raw("{" + strings.Join(labels, ", ") + "}")},
			{Key: "input", Value: lines},
			{Key: "expect", Value: yamltext.Raw(fmt.Sprintf("[{at: %s, firing: %s}]", duration(t.at), firing))},
		})
	}
	return out
}

// oneLine returns a text without line breaks, for a comment.
func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if !yamltext.IsPrintable(r) {
			return ' '
		}
		return r
	}, s)), " ")
}
