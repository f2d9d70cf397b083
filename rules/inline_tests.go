package rules

import (
	"fmt"
	"slices"
	"time"

	"crowsnest/strictyaml"
)

// testCompiler compiles the inline tests of a rule. The only input from the rule itself is the
// list of its causes.
type testCompiler struct {
	*report
	causes []string
}

func (c *testCompiler) compileTests(tests []TestSyntax) (all []Test) {
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
			out.Input = append(out.Input, c.compileInput(in, t.Stream))
			lines += max(in.Repeat, 1)
		}
		if lines > maxTestLines {
			c.addError(t.Keys.Key("input"), "too-many-lines", fmt.Sprintf("the test has %d lines with repetitions, more than %d", lines, maxTestLines), "use a smaller `repeat`")
		}
		for j := range t.Expect {
			e := &t.Expect[j]
			if !e.Keys.At.IsZero() {
				out.Expect = append(out.Expect, c.compileCheckpoint(e))
			}
		}
		if len(t.Expect) == 0 && t.Keys.IsDecoded("expect") {
			c.addError(t.Keys.Key("expect"), "empty-value", "the test expects nothing", "add a checkpoint: {at: 1m, firing: none}")
		}
		all = append(all, out)
	}
	return all
}

func (c *testCompiler) compileInput(in *InputSyntax, stream map[string]string) Input {
	c.checkInput(in, stream)
	out := Input{
		Line: in.Keys.At.Line, At: in.At, TS: in.At, HasTS: in.Keys.Has("ts"),
		Text: in.Line, Labels: in.Labels, Repeat: max(in.Repeat, 1), Every: in.Every, Source: in.Source, Do: in.Do,
		Cause: in.Cause, Until: in.Until, HasUntil: in.Keys.Has("until"),
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
	if k.HasAnyError() {
		return
	}
	var what []string
	for _, key := range []string{"line", "source", "do", "cause"} {
		if k.Has(key) {
			what = append(what, key)
		}
	}
	if len(what) == 0 {
		c.addError(k.At, "missing-key", "the input lacks `line`, `source`, `do` or `cause`", "add one of them")
		return
	}
	if len(what) > 1 {
		c.addError(k.Key(what[1]), "no-effect", fmt.Sprintf("one input has both `%s` and `%s`", what[0], what[1]), "write two inputs")
		return
	}
	c.checkExtras(in, what[0])
	if k.Has("source") && in.Source != "lost" && in.Source != "back" {
		c.addError(k.Value("source"), "enum", fmt.Sprintf("`source` is %.60q", in.Source), "use lost or back")
	}
	if k.Has("do") && in.Do != "restart" && in.Do != doGone {
		c.addError(k.Value("do"), "enum", fmt.Sprintf("`do` is %.60q", in.Do), "use restart or gone")
	}
	pod, stated := in.Labels["pod"]
	if !stated {
		pod = stream["pod"]
	}
	if in.Do == doGone && pod == "" {
		c.addError(k.Value("do"), "no-effect", "`do: gone` names no pod", "add the labels of the deleted pod: labels: {namespace: NAMESPACE, pod: POD}")
	}
	c.checkEnd(in)
	if k.Has("every") && !k.Has("repeat") && what[0] == "line" {
		c.addError(k.Key("every"), "no-effect", "`every` has no effect without `repeat`", "add `repeat`")
	}
}

// checkExtras checks the keys that only some kinds of input may have. name is the key that
// determines the kind.
func (c *testCompiler) checkExtras(in *InputSyntax, name string) {
	k := &in.Keys
	allowed := map[string][]string{
		"line": {"ts", "labels", "repeat", "every"}, "source": {"labels"}, "cause": {"ts", "labels", "until"},
	}[name]
	if in.Do == doGone {
		allowed = []string{"labels"}
	}
	for _, key := range []string{"ts", "labels", "repeat", "every", "until"} {
		if k.Has(key) && !slices.Contains(allowed, key) {
			needs := "line"
			if key == "until" {
				needs = "cause"
			}
			c.addError(k.Key(key), "no-effect", fmt.Sprintf("`%s` has no effect without `%s`", key, needs), "remove it")
		}
	}
	if name != "cause" {
		return
	}
	if !slices.Contains(c.causes, in.Cause) {
		fix := "add it to `symptom_of`"
		if best := strictyaml.Closest(in.Cause, c.causes); best != "" {
			fix = "did you mean " + best + "?"
		}
		c.addError(k.Value("cause"), "no-effect", fmt.Sprintf("`cause` names %.80q, which is not in `symptom_of` of the rule", in.Cause), fix)
	}
	if k.Has("ts") && in.TS > in.At {
		c.addError(k.Value("ts"), "out-of-range", "the failure of a `cause` begins after its alert fires", "use a `ts` that is not after `at`")
	}
	if k.Has("until") && in.Until < in.At {
		c.addError(k.Value("until"), "out-of-range", "the alert of a `cause` ends before it fires", "use an `until` that is not before `at`")
	}
}

func (c *testCompiler) compileCheckpoint(e *CheckpointSyntax) Checkpoint {
	out := Checkpoint{
		Line: e.Keys.At.Line, At: e.At, None: e.Firing.None, HasFiring: e.Keys.Has("firing"),
		Firing: expectedAlerts(e.Firing.Alerts), Resolved: expectedAlerts(e.Resolved),
	}
	if e.Keys.HasAnyError() {
		return out
	}
	if !e.Keys.Has("firing") && !e.Keys.Has("resolved") {
		c.addError(e.Keys.At, "missing-key", "the checkpoint lacks `firing` or `resolved`", "add firing: none, or list the alerts")
	}
	for _, a := range e.Firing.Alerts {
		if a.EndsAt != nil {
			c.addError(a.Keys.At, "no-effect", "`ends_at` has no effect on a firing alert", "use it under `resolved`")
		}
	}
	return out
}

func expectedAlerts(list []ExpectedAlertSyntax) []ExpectedAlert {
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
		c.addError(in.Keys.Key("every"), "out-of-range", fmt.Sprintf("%d repetitions every %s end later than %s after the start of the test",
			in.Repeat, duration(in.Every), duration(maxTestEnd)), "use a shorter `every`, or repeat less often")
	}
}
