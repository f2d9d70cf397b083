package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"crowsnest/strictyaml"
)

// compileTests compiles the inline tests.
func (c *compiler) compileTests() {
	for i := range c.RuleSyntax.Tests {
		t := &c.RuleSyntax.Tests[i]
		if t.Keys.At.IsZero() {
			continue
		}
		out := Test{Name: t.Name, Line: t.Keys.At.Line, Stream: t.Stream}
		lines := 0
		for j := range t.Input {
			in := &t.Input[j]
			if in.Keys.At.IsZero() {
				continue
			}
			out.Input = append(out.Input, c.input(in))
			lines += max(in.Repeat, 1)
		}
		if lines > maxTestLines {
			c.errorAt(t.Keys.Key("input"), "too-many-lines", fmt.Sprintf("the test has %d lines with repetitions, more than %d", lines, maxTestLines), "use a smaller `repeat`")
		}
		for j := range t.Expect {
			e := &t.Expect[j]
			if !e.Keys.At.IsZero() {
				out.Expect = append(out.Expect, c.checkpoint(e))
			}
		}
		if len(t.Expect) == 0 && t.Keys.Has("expect") && !t.Keys.Broken("expect") {
			c.errorAt(t.Keys.Key("expect"), "empty-value", "the test expects nothing", "add a checkpoint: {at: 1m, firing: none}")
		}
		c.rule.Tests = append(c.rule.Tests, out)
	}
}

func (c *compiler) input(in *InputSyntax) Input {
	out := Input{
		Line: in.Keys.At.Line, At: in.At, TS: in.At, HasTS: in.Keys.Has("ts"),
		Text: in.Line, Labels: in.Labels, Repeat: max(in.Repeat, 1), Every: in.Every, Source: in.Source, Do: in.Do,
	}
	if out.HasTS {
		out.TS = in.TS
	}
	c.checkInput(in)
	return out
}

func (c *compiler) checkInput(in *InputSyntax) {
	k := &in.Keys
	if k.Damaged() {
		return
	}
	var what []string
	for _, key := range []string{"line", "source", "do"} {
		if k.Has(key) {
			what = append(what, key)
		}
	}
	switch len(what) {
	case 0:
		c.errorAt(k.At, "missing-key", "the input lacks `line`, `source` or `do`", "add one of them")
		return
	case 1:
	default:
		c.errorAt(k.Key(what[1]), "no-effect", fmt.Sprintf("one input has both `%s` and `%s`", what[0], what[1]), "write two inputs")
		return
	}
	if what[0] != "line" {
		for _, key := range []string{"ts", "labels", "repeat", "every"} {
			if k.Has(key) {
				c.errorAt(k.Key(key), "no-effect", fmt.Sprintf("`%s` has no effect without `line`", key), "remove it")
			}
		}
	}
	if k.Has("source") && in.Source != "lost" && in.Source != "back" {
		c.errorAt(k.Value("source"), "enum", fmt.Sprintf("`source` is %.60q", in.Source), "use lost or back")
	}
	if k.Has("do") && in.Do != "restart" {
		c.errorAt(k.Value("do"), "enum", fmt.Sprintf("`do` is %.60q", in.Do), "use restart")
	}
	c.checkEnd(in)
	if k.Has("every") && !k.Has("repeat") && what[0] == "line" {
		c.errorAt(k.Key("every"), "no-effect", "`every` has no effect without `repeat`", "add `repeat`")
	}
}

func (c *compiler) checkpoint(e *CheckpointSyntax) Checkpoint {
	out := Checkpoint{
		Line: e.Keys.At.Line, At: e.At, None: e.Firing.None, HasFiring: e.Keys.Has("firing"),
		Firing: expected(e.Firing.Alerts), Resolved: expected(e.Resolved),
	}
	if e.Keys.Damaged() {
		return out
	}
	if !e.Keys.Has("firing") && !e.Keys.Has("resolved") {
		c.errorAt(e.Keys.At, "missing-key", "the checkpoint lacks `firing` or `resolved`", "add firing: none, or list the alerts")
	}
	for _, a := range e.Firing.Alerts {
		if a.EndsAt != nil {
			c.errorAt(a.Keys.At, "no-effect", "`ends_at` has no effect on a firing alert", "use it under `resolved`")
		}
	}
	return out
}

func expected(list []ExpectedAlertSyntax) []ExpectedAlert {
	var out []ExpectedAlert
	for _, a := range list {
		out = append(out, ExpectedAlert{
			Labels: a.Labels, Annotations: a.Annotations, StartsAt: a.StartsAt, EndsAt: a.EndsAt, Value: a.Value,
		})
	}
	return out
}

// lintShipped checks what the CI of this repository requires of its packs.
func lintShipped(f *form, r *Rule) Problems {
	var out Problems
	add := func(check, message, fix string) {
		out = append(out, f.problem(f.at, strictyaml.Error, check, message, fix))
	}
	positive, negative := false, false
	for i := range r.Tests {
		p, n := expects(&r.Tests[i])
		positive, negative = positive || p, negative || n
	}
	if !positive {
		add("no-positive-test", "the rule has no test that expects an alert", "add a test with a line as it was logged, and a checkpoint that lists the alert")
	}
	if !negative {
		add("no-negative-test", "the rule has no test in which lines raise no alert", "add a test with a similar line, and a checkpoint with firing: none")
	}
	if positive {
		for _, m := range untestedBranches(r) {
			add("untested-shape", "no test that expects an alert has a line for "+m, "add a test for each branch")
		}
	}
	return out
}

// expects reports whether a test expects an alert (positive), and whether it
// expects none after a line (negative).
func expects(t *Test) (positive, negative bool) {
	first := time.Duration(-1)
	for _, in := range t.Input {
		if in.Text != "" && (first < 0 || in.At < first) {
			first = in.At
		}
	}
	for _, e := range t.Expect {
		positive = positive || len(e.Firing) > 0 || len(e.Resolved) > 0
		negative = negative || e.None && first >= 0 && e.At >= first
	}
	return positive, negative
}

// untestedBranches returns the names of the branches of `any` that no line of a
// positive test matches. For a field it only checks that the line contains its
// name.
func untestedBranches(r *Rule) []string {
	var out []string
	for i, s := range r.Steps {
		for j, branch := range s.Matcher.Any {
			tested := false
			for k := range r.Tests {
				like := func(in Input) bool { return looksLike(in.Text, branch) }
				if p, _ := expects(&r.Tests[k]); p && slices.ContainsFunc(r.Tests[k].Input, like) {
					tested = true
				}
			}
			if !tested {
				name := fmt.Sprintf("branch %d of `any`", j+1)
				if r.Sequence {
					name += fmt.Sprintf(" in step %d", i+1)
				}
				out = append(out, name)
			}
		}
	}
	return out
}

func looksLike(line string, m Matcher) bool {
	for _, text := range m.Contains {
		if !strings.Contains(line, text) {
			return false
		}
	}
	if m.Regex != nil && !m.Regex.MatchString(line) {
		return false
	}
	for _, f := range m.Fields {
		if first, _, _ := strings.Cut(f.Name, "."); first != "msg" && !strings.Contains(line, first) {
			return false
		}
	}
	return len(m.Any) == 0 || slices.ContainsFunc(m.Any, func(a Matcher) bool { return looksLike(line, a) })
}
