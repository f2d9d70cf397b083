package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"crowsnest/internal/strictyaml"
	"crowsnest/rules/internal/expr"
)

// testCompiler compiles the inline tests of a rule. It knows only the causes of the rule.
type testCompiler struct {
	*report
	causes    []string
	namespace string // owner of the pack; a stream without a namespace gets this one
}

func (c *testCompiler) compileTests(tests []TestSyntax) (all []Test) {
	for i := range tests {
		t := &tests[i]
		if t.Keys.Pos.IsZero() {
			continue
		}
		if c.namespace != "" && t.Stream["namespace"] == "" && !t.Keys.HasError("stream") {
			t.Stream = maps.Clone(t.Stream)
			if t.Stream == nil {
				t.Stream = map[string]string{}
			}
			t.Stream["namespace"] = c.namespace
		}
		out := Test{Name: t.Name, Line: t.Keys.Pos.Line, Stream: t.Stream}
		lines := 0
		for j := range t.Input {
			in := &t.Input[j]
			if in.Keys.Pos.IsZero() {
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
			if !e.Keys.Pos.IsZero() {
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
	out := in.Input
	out.Line, out.Repeat = in.Keys.Pos.Line, max(in.Repeat, 1)
	out.HasTS, out.HasUntil = in.Keys.Has("ts"), in.Keys.Has("until")
	if !out.HasTS {
		out.TS = in.At
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
		c.addError(k.Pos, "missing-key", "the input lacks `line`, `source`, `do` or `cause`", "add one of them")
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

// checkExtras checks the keys that are allowed only for some kinds of inputs. name is the key that determines the kind.
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
		c.addError(k.Value("cause"), "no-effect", fmt.Sprintf("`cause` names %.80q, which is not in `symptom_of` of the rule", in.Cause),
			strictyaml.SuggestName(in.Cause, c.causes, "add it to `symptom_of`"))
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
		Line: e.Keys.Pos.Line, At: e.At, None: e.Firing.None, HasFiring: e.Keys.Has("firing"),
		Firing: e.Firing.Alerts, Resolved: e.Resolved,
	}
	if e.Keys.HasAnyError() {
		return out
	}
	if !e.Keys.Has("firing") && !e.Keys.Has("resolved") {
		c.addError(e.Keys.Pos, "missing-key", "the checkpoint lacks `firing` or `resolved`", "add firing: none, or list the alerts")
	}
	for _, a := range e.Firing.Alerts {
		if a.EndsAt != nil {
			c.addError(a.pos, "no-effect", "`ends_at` has no effect on a firing alert", "use it under `resolved`")
		}
	}
	return out
}

func (c *testCompiler) checkEnd(in *InputSyntax) {
	last := max(in.At, in.TS)
	if in.Every > 0 && in.Repeat > 1 && in.Every > (maxTestEnd-last)/time.Duration(in.Repeat-1) {
		c.addError(in.Keys.Key("every"), "out-of-range", fmt.Sprintf("%d repetitions, one every %s, end more than %s after the start of the test",
			in.Repeat, duration(in.Every), duration(maxTestEnd)), "use a shorter `every`, or repeat less often")
	}
}

// Limits of inline tests.
const (
	maxTestLines = 100_000              // maximum number of lines of one test
	maxTestEnd   = 365 * 24 * time.Hour // maximum time of the last repetition of a line
	// maxTestTime is the maximum estimated CPU time of all tests of all loaded packs.
	maxTestTime = 2 * time.Minute
	// The next three are estimated CPU times of a line or checkpoint, of comparing two alerts, and of a restart.
	lineTime    = 5 * time.Microsecond
	compareTime = 200 * time.Nanosecond
	restartTime = time.Millisecond
)

// checkTests reports packs whose tests together would delay loading too much. It computes the exact bound of each
// rule only if a less exact one does not suffice.
func (b *builder) checkTests() {
	if len(b.slowTests(func(r *Rule) time.Duration { return cmp.Or(r.maxLine.most, maxLineCost) })) > 0 {
		b.problems = append(b.problems, b.slowTests((*Rule).MaxLineTime)...)
	}
}

// slowTests returns a problem for each owner whose tests take too long. longest returns the time of a rule for the
// longest line.
func (b *builder) slowTests(longest func(*Rule) time.Duration) (problems Problems) {
	// total is the estimated CPU time of the tests of an owner. refused reports whether it was too much.
	total, refused := map[string]time.Duration{}, map[string]bool{}
	for _, r := range b.rules {
		owner, allowed, who := r.doc.namespace, maxTestTime, "all packs together"
		if r.rule == nil || refused[owner] {
			continue
		}
		if owner != "" {
			allowed, who = MaxOwnedTestTime, "all packs of namespace "+owner
		}
		for i := range r.rule.Tests {
			total[owner] += testTime(&r.rule.Tests[i], longest(r.rule))
			if total[owner] <= allowed {
				continue
			}
			refused[owner] = true
			problems = append(problems, r.writtenForm().newProblem(r.writtenForm().Keys.Key("tests"), strictyaml.Error, "test-budget",
				fmt.Sprintf("with test %d of rule %s, the inline tests may take %s of CPU time; %s are allowed %s",
					i+1, r.alert, total[owner].Round(time.Second), who, allowed), "repeat lines less often, or load fewer packs"))
			break
		}
	}
	return problems
}

// testTime returns an upper bound of the estimated CPU time of a test. longest is the time for the longest line.
func testTime(t *Test, longest time.Duration) time.Duration {
	sum := time.Duration(0)
	for i := range t.Input {
		in := &t.Input[i]
		if in.Do != "" {
			sum += restartTime
		}
		size := time.Duration(min(len(in.Text), expr.MaxLine))
		sum += time.Duration(min(in.Repeat, maxTestLines)) * (lineTime + size*(longest/expr.MaxLine))
	}
	for i := range t.Expect {
		n := time.Duration(max(len(t.Expect[i].Firing), len(t.Expect[i].Resolved)))
		sum += lineTime + n*n*compareTime
	}
	return sum
}

// TestTime returns an upper bound of the estimated CPU time of the inline tests of rules.
func TestTime(all []*Rule) time.Duration {
	sum := time.Duration(0)
	for _, r := range all {
		for i := range r.Tests {
			sum += testTime(&r.Tests[i], r.MaxLineTime())
		}
	}
	return sum
}
