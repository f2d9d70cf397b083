package rules

import (
	"fmt"
	"time"
)

// testCompiler compiles the inline tests of a rule. It needs nothing of the rule.
type testCompiler struct{ *report }

func (c *testCompiler) compile(tests []TestSyntax) (all []Test) {
	for i := range tests {
		t := &tests[i]
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
			out.Input = append(out.Input, c.input(in, t.Stream))
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
		if len(t.Expect) == 0 && t.Keys.Good("expect") {
			c.errorAt(t.Keys.Key("expect"), "empty-value", "the test expects nothing", "add a checkpoint: {at: 1m, firing: none}")
		}
		all = append(all, out)
	}
	return all
}

func (c *testCompiler) input(in *InputSyntax, stream map[string]string) Input {
	c.checkInput(in, stream)
	out := Input{
		Line: in.Keys.At.Line, At: in.At, TS: in.At, HasTS: in.Keys.Has("ts"),
		Text: in.Line, Labels: in.Labels, Repeat: max(in.Repeat, 1), Every: in.Every, Source: in.Source, Do: in.Do,
	}
	if out.HasTS {
		out.TS = in.TS
	}
	return out
}

// doGone is the value of `do` that deletes a pod.
const doGone = "gone"

func (c *testCompiler) checkInput(in *InputSyntax, stream map[string]string) {
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
	if len(what) == 0 {
		c.errorAt(k.At, "missing-key", "the input lacks `line`, `source` or `do`", "add one of them")
		return
	}
	if len(what) > 1 {
		c.errorAt(k.Key(what[1]), "no-effect", fmt.Sprintf("one input has both `%s` and `%s`", what[0], what[1]), "write two inputs")
		return
	}
	if what[0] != "line" {
		for _, key := range []string{"ts", "labels", "repeat", "every"} {
			if k.Has(key) && (key != "labels" || what[0] != "source" && in.Do != doGone) {
				c.errorAt(k.Key(key), "no-effect", fmt.Sprintf("`%s` has no effect without `line`", key), "remove it")
			}
		}
	}
	if k.Has("source") && in.Source != "lost" && in.Source != "back" {
		c.errorAt(k.Value("source"), "enum", fmt.Sprintf("`source` is %.60q", in.Source), "use lost or back")
	}
	if k.Has("do") && in.Do != "restart" && in.Do != doGone {
		c.errorAt(k.Value("do"), "enum", fmt.Sprintf("`do` is %.60q", in.Do), "use restart or gone")
	}
	pod, stated := in.Labels["pod"]
	if !stated {
		pod = stream["pod"]
	}
	if in.Do == doGone && pod == "" {
		c.errorAt(k.Value("do"), "no-effect", "`do: gone` names no pod", "add the labels of the deleted pod: labels: {namespace: NAMESPACE, pod: POD}")
	}
	c.checkEnd(in)
	if k.Has("every") && !k.Has("repeat") && what[0] == "line" {
		c.errorAt(k.Key("every"), "no-effect", "`every` has no effect without `repeat`", "add `repeat`")
	}
}

func (c *testCompiler) checkpoint(e *CheckpointSyntax) Checkpoint {
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
		out = append(out, a.ExpectedAlert)
	}
	return out
}

// checkEnd reports repetitions whose last time would overflow.
func (c *testCompiler) checkEnd(in *InputSyntax) {
	last := max(in.At, in.TS)
	if in.Every > 0 && in.Repeat > 1 && in.Every > (maxTestEnd-last)/time.Duration(in.Repeat-1) {
		c.errorAt(in.Keys.Key("every"), "out-of-range", fmt.Sprintf("%d repetitions every %s end later than %s after the start of the test",
			in.Repeat, duration(in.Every), duration(maxTestEnd)), "use a shorter `every`, or repeat less often")
	}
}
