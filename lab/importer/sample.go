package importer

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"time"

	"crowsnest/internal/text"
	"crowsnest/matcher"
	"crowsnest/rules/selector"
)

// Limits of the tests that are generated from sample logs.
const (
	maxSampleLine  = 2 << 10   // maximum length of a line in bytes
	maxSampleLines = 20_000    // maximum number of lines that are read from a log
	maxSampled     = 256 << 20 // maximum size of the logs of all rules together in bytes
)

// sampleLines returns the texts of the lines in a sample log.
func (im *importer) sampleLines(r *rule, data []byte) []string {
	if im.sampled += len(data); im.sampled > maxSampled {
		r.warn("the sample log was not read: the rules of this run have more than %d MiB of them", maxSampled>>20)
		return nil
	}
	var out []string
	for line := range strings.Lines(string(data[:min(len(data), MaxSampleBytes)])) {
		t := strings.ToValidUTF8(string(matcher.TextOf([]byte(strings.TrimRight(line, "\r\n")))), "\uFFFD")
		if strings.TrimSpace(t) != "" {
			out = append(out, t)
		}
		if len(out) == maxSampleLines {
			break
		}
	}
	return out
}

// compile returns a function that reports whether a line matches the pattern, which must be valid.
func (m *pattern) compile() func(line string) bool {
	var parts []func(string) bool
	if m.text != "" {
		parts = append(parts, func(l string) bool { return strings.Contains(l, m.text) })
	}
	if m.regex != "" {
		parts = append(parts, regexp.MustCompile(m.regex).MatchString)
	}
	if len(m.any) > 0 {
		var branches []func(string) bool
		for i := range m.any {
			branches = append(branches, m.any[i].compile())
		}
		parts = append(parts, func(l string) bool {
			return slices.ContainsFunc(branches, func(b func(string) bool) bool { return b(l) })
		})
	}
	if m.not != nil {
		not := m.not.compile()
		parts = append(parts, func(l string) bool { return !not(l) })
	}
	return func(l string) bool {
		return !slices.ContainsFunc(parts, func(p func(string) bool) bool { return !p(l) })
	}
}

// sampleTests adds two tests to the rule. In one test, lines of the sample log make the rule fire. In the other,
// another line of the sample log does not.
func (im *importer) sampleTests(r *rule, m *meaning, id string) error {
	if len(m.sample) == 0 {
		r.warn("there is no sample log, so the rule has no test")
		return nil
	}
	if fires, _ := m.chooseLines(func(s string) string { return s }); fires == nil {
		return m.whySilent()
	}
	stream, ok := streamLabels(r.from)
	fires, quiet := m.chooseLines(im.redactor.String)
	if !ok || fires == nil {
		r.warn("no test was written: redaction hides what the rule matches in the sample log, or no stream has the labels of `from`")
		return nil
	}
	n := max(len(fires), 1)
	if len(r.sequence) == 0 && r.distinct == "" {
		n = max(r.count, 1)
	}
	spacing := time.Second
	if r.within > 0 {
		spacing = max(min(spacing, r.within/time.Duration(2*n)), time.Millisecond).Truncate(time.Millisecond)
	}
	t := test{name: "the sample log of " + oneLine(id), stream: stream, fires: true}
	for i, l := range fires {
		t.lines = append(t.lines, testLine{at: time.Duration(i) * spacing, text: l})
	}
	if n > len(fires) {
		t.lines[0].repeat, t.lines[0].every = n, spacing
	}
	end := (time.Duration(n) * spacing).Round(time.Second)
	t.at = end + r.wait + time.Minute
	r.tests = append(r.tests, t)
	if quiet != "" {
		r.tests = append(r.tests, test{name: "another line of the sample log", stream: stream, lines: []testLine{{text: quiet}}, at: r.wait + time.Minute})
	}
	return nil
}

func (m *meaning) whySilent() error {
	c := m.newChooser()
	for i, is := range c.conditions {
		if !slices.ContainsFunc(m.sample, is) {
			return fmt.Errorf("condition %d matches no line of its sample log: it needs several lines together. preq joins lines without a time to the line before, and crowsnest reads each line by itself", i+1)
		}
	}
	if m.rule.distinct != "" {
		return fmt.Errorf("%s", m.rule.ifFails)
	}
	return fmt.Errorf("the lines of its sample log do not complete the rule")
}

// chooseLines returns the first lines of the sample that make the rule fire, and one line that meets none of its
// conditions. The lines are redacted.
func (m *meaning) chooseLines(redact func(string) string) (fires []string, quiet string) {
	c := m.newChooser()
	for _, l := range m.sample {
		if len(l) > maxSampleLine {
			continue
		}
		l = text.Truncate(redact(l), 2*maxSampleLine)
		if used := c.useLine(l); !used && quiet == "" {
			quiet = l
		}
		if c.left == 0 && quiet != "" {
			break
		}
	}
	if c.left > 0 {
		return nil, ""
	}
	return c.lines, quiet
}

// chooser selects lines that together make a rule fire.
type chooser struct {
	conditions []func(string) bool
	ordered    bool
	forbidden  func(string) bool // whether a line makes the selection start again
	met        []bool
	left       int
	lines      []string
}

func (m *meaning) newChooser() *chooser {
	r := m.rule
	c := &chooser{forbidden: func(string) bool { return false }}
	if m.clearing {
		c.forbidden = r.clear.compile()
	}
	switch {
	case len(r.sequence) > 0:
		c.ordered = true
		for i := range r.sequence {
			c.conditions = append(c.conditions, r.sequence[i].compile())
		}
	case r.distinct != "":
		for i := range r.match.any {
			c.conditions = append(c.conditions, r.match.any[i].compile())
		}
	default:
		c.conditions = append(c.conditions, r.match.compile())
	}
	c.reset()
	return c
}

func (c *chooser) reset() {
	c.met, c.left, c.lines = make([]bool, len(c.conditions)), len(c.conditions), nil
}

// useLine adds a line if it is needed, and reports whether the line meets any condition.
func (c *chooser) useLine(l string) bool {
	if c.forbidden(l) {
		if c.left > 0 {
			c.reset()
		}
		return true
	}
	known := false
	for i, is := range c.conditions {
		if !is(l) {
			continue
		}
		if known = true; c.ordered && i != len(c.conditions)-c.left {
			continue
		}
		if !c.met[i] {
			c.met[i], c.left, c.lines = true, c.left-1, append(c.lines, l)
		}
		return true
	}
	return known
}

// streamLabels returns the labels of some stream that the selector selects. It returns false if it finds none.
func streamLabels(from string) ([]entry, bool) {
	s, err := selector.Parse(from)
	if err != nil {
		return nil, false
	}
	labels := map[string]string{"namespace": "default", "pod": "example-0", "container": "example", "node": "node-1"}
	names := []string{"namespace", "pod", "container"}
	if alertKey(from) == "node" {
		names = []string{"node"}
	}
	for _, m := range s.Matchers() {
		if !slices.Contains(names, m.Name) {
			names = append(names, m.Name)
		}
		if m.Matches(labels[m.Name]) {
			continue
		}
		if labels[m.Name] = m.Value; m.Op == selector.Regexp {
			re, err := syntax.Parse(m.Value, syntax.Perl)
			if err != nil {
				return nil, false
			}
			labels[m.Name] = exampleText(re)
		}
		if !m.Matches(labels[m.Name]) {
			return nil, false
		}
	}
	var out []entry
	for _, n := range names {
		if labels[n] != "" {
			out = append(out, entry{n, labels[n]})
		}
	}
	return out, s.Matches(labels, false)
}
