package replay

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/lazyre"
	"crowsnest/internal/text"
	"crowsnest/matcher"
	"crowsnest/rules"
)

var testStart = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// TestOptions configures RunTests.
type TestOptions struct {
	// Run selects the tests whose "rule/test" it matches. Nil selects all tests.
	Run *regexp.Regexp
	// Mutate enables running the tests also against each mutant of a rule. A mutant is the rule with one part removed
	// or loosened.
	Mutate bool
}

// TestResult is the outcome of one inline test.
type TestResult struct {
	File     string        `json:"file"`
	Line     int           `json:"line"`
	Pack     string        `json:"pack"`
	Rule     string        `json:"rule"`
	Test     string        `json:"test"`
	Failures []string      `json:"failures"` // descriptions of the differences; empty if the test passed
	Duration time.Duration `json:"-"`
}

// Survivor is a mutant of a rule for which all tests pass. No test protects the part of the rule that the mutant
// changes.
type Survivor struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Rule string `json:"rule"`
	Part string `json:"part"`
}

// TestReport contains the results of all tests.
type TestReport struct {
	Results   []TestResult
	Mutants   int
	Survivors []Survivor
}

// Failed returns the number of tests that failed.
func (r TestReport) Failed() int {
	n := 0
	for _, t := range r.Results {
		if len(t.Failures) > 0 {
			n++
		}
	}
	return n
}

// RunTests runs the inline tests of every rule. In a test, the rule is enabled and is the only rule. RunTests returns
// an error if a rule cannot be compiled.
func RunTests(all []*rules.Rule, opt TestOptions) (TestReport, error) {
	type outcome struct {
		TestReport
		err error
	}
	outcomes := runParallel(len(all), func(i int) (o outcome) {
		r := cmp.Or(all[i].PackRule, all[i]) // the tests are for the rule as its pack defines it
		o.Results, o.err = runRule(r, opt.Run)
		if o.err == nil && opt.Mutate && o.Failed() == 0 {
			o.Mutants, o.Survivors, o.err = mutateRule(r, opt.Run)
		}
		return o
	})
	var report TestReport
	for _, o := range outcomes {
		if o.err != nil {
			return report, o.err
		}
		report.Results = append(report.Results, o.Results...)
		report.Mutants += o.Mutants
		report.Survivors = append(report.Survivors, o.Survivors...)
	}
	return report, nil
}

func ruleAlone(r *rules.Rule) (*rules.Set, *matcher.Program, error) {
	on := *r
	on.Mode = rules.ModeOn
	set := &rules.Set{Rules: []*rules.Rule{&on}}
	prog, err := matcher.Compile(set)
	if err != nil {
		return nil, nil, fmt.Errorf("%s:%d: rule %s: %w", r.File, r.Line, r.Alert, err)
	}
	return set, prog, nil
}

func runRule(r *rules.Rule, run *regexp.Regexp) ([]TestResult, error) {
	set, prog, err := ruleAlone(r)
	if err != nil {
		return nil, err
	}
	var out []TestResult
	for _, t := range r.Tests {
		if run != nil && !run.MatchString(r.Alert+"/"+t.Name) {
			continue
		}
		began := time.Now()
		failures := runSafely(set, prog, t)
		out = append(out, TestResult{
			File: r.File, Pack: r.Pack, Rule: r.Alert, Test: t.Name, Line: t.Line,
			Failures: append([]string{}, failures...), Duration: time.Since(began),
		})
	}
	return out, nil
}

// step is one event of a test with its time. Repetitions are separate steps.
type step struct {
	at, ts time.Duration
	in     *rules.Input
	index  int
	ends   bool // whether the step ends the alert of a cause
}

func testSteps(t rules.Test) []step {
	var steps []step
	for i := range t.Input {
		in := &t.Input[i]
		if in.HasUntil {
			steps = append(steps, step{at: in.Until, ts: in.Until, in: in, ends: true})
		}
		for k := range max(in.Repeat, 1) {
			shift := time.Duration(k) * in.Every
			s := step{at: in.At + shift, ts: in.At + shift, in: in, index: k}
			if in.HasTS {
				s.ts = in.TS + shift
			}
			steps = append(steps, s)
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	return steps
}

// runSafely runs a test. A panic or a quarantined rule counts as a failed test.
func runSafely(set *rules.Set, prog *matcher.Program, t rules.Test) (failures []string) {
	defer func() {
		if p := recover(); p != nil {
			failures = []string{fmt.Sprintf("line %d: the rule failed because of a bug in crowsnest: %v", t.Line, p)}
		}
	}()
	return runTest(set, prog, t)
}

func runTest(set *rules.Set, prog *matcher.Program, t rules.Test) []string {
	steps, causes := testSteps(t), causeStubs(t)
	s := newSession(withStubs(set, causes), prog, testStart, episodes.Config{}, testSources(t, steps)...)
	s.stubs = causes
	points := slices.Clone(t.Expect)
	slices.SortStableFunc(points, func(a, b rules.Checkpoint) int { return cmp.Compare(a.At, b.At) })
	var failures []string
	for len(steps) > 0 || len(points) > 0 {
		at := nextTime(steps, points)
		s.reachTime(testStart.Add(at))
		for ; len(steps) > 0 && steps[0].at == at; steps = steps[1:] {
			if err := s.runInput(t, steps[0]); err != nil {
				return append(failures, fmt.Sprintf("line %d: %s", steps[0].in.Line, err))
			}
		}
		if len(points) > 0 && points[0].At == at {
			s.endRecords(testStart.Add(at))
		}
		s.settleAt(testStart.Add(at))
		for ; len(points) > 0 && points[0].At == at; points = points[1:] {
			failures = append(failures, checkExpected(points[0], s)...)
		}
	}
	if len(s.engine.Quarantined()) > 0 || len(prog.Quarantined()) > 0 {
		failures = append(failures, fmt.Sprintf("line %d: the evaluation of the rule failed because of a bug in crowsnest", t.Line))
	}
	return failures
}

func nextTime(steps []step, points []rules.Checkpoint) time.Duration {
	switch {
	case len(steps) == 0:
		return points[0].At
	case len(points) == 0:
		return steps[0].at
	}
	return min(steps[0].at, points[0].At)
}

var valueAction = lazyre.New(`\{\{-?\s*\$value\s*-?\}\}`)

func (s *session) runInput(t rules.Test, st step) error {
	at := testStart.Add(st.at)
	s.now = at
	switch {
	case st.in.Source != "":
		s.loseSource(st.in.Source == "lost", sourceLabels(t, st))
		return nil
	case st.in.Do == "restart":
		return s.restartEngine()
	case st.in.Cause != "":
		s.applyCause(st)
		return nil
	}
	labels, text := stepLine(t, st)
	if st.in.Do == "gone" {
		s.engine.PodDeleted(labels, at)
		return nil
	}
	s.scanLine(labels, testStart.Add(st.ts), text, at)
	return nil
}

// sourceLabels returns the labels of the stream whose source the step stops or restores. Nil means every source.
func sourceLabels(t rules.Test, st step) matcher.Labels {
	if len(st.in.Labels) == 0 {
		return nil
	}
	labels, _ := stepLine(t, st)
	return labels
}

// testSources returns the streams whose sources a test stops or restores separately.
func testSources(t rules.Test, steps []step) (out []matcher.Labels) {
	for _, st := range steps {
		if st.in.Source == "" {
			continue
		}
		labels := sourceLabels(t, st)
		if labels != nil && !slices.ContainsFunc(out, func(o matcher.Labels) bool { return maps.Equal(o, labels) }) {
			out = append(out, labels)
		}
	}
	return out
}

func stepLine(t rules.Test, st step) (labels matcher.Labels, text string) {
	index := strconv.Itoa(st.index)
	fill := func(text string) string { return valueAction.ReplaceAllLiteralString(text, index) }
	labels = maps.Clone(matcher.Labels(t.Stream))
	if labels == nil {
		labels = matcher.Labels{}
	}
	for name, value := range st.in.Labels {
		labels[name] = fill(value)
	}
	maps.DeleteFunc(labels, func(_, v string) bool { return v == "" })
	return labels, fill(st.in.Text)
}

func checkExpected(c rules.Checkpoint, s *session) []string {
	var out []string
	fail := func(name string, want []rules.ExpectedAlert, got []episodes.Episode) {
		out = append(out, fmt.Sprintf("line %d: at %s: %s\n  expected: %s\n  got:      %s", c.Line, c.At, name, describeExpected(want), describe(got)))
	}
	if c.HasFiring {
		got := slices.SortedFunc(maps.Values(s.firing), func(a, b episodes.Episode) int {
			return strings.Compare(text.FormatLabels(a.Labels), text.FormatLabels(b.Labels))
		})
		if len(got) != len(c.Firing) || !assignAlerts(c.Firing, got) {
			fail("firing alerts differ", c.Firing, got)
		}
	}
	if len(c.Resolved) > 0 && !assignAlerts(c.Resolved, s.resolved) {
		fail("resolved alerts differ", c.Resolved, s.resolved)
	}
	return out
}

// assignAlerts reports whether each expected alert can be matched with an actual alert of its own.
func assignAlerts(want []rules.ExpectedAlert, got []episodes.Episode) bool {
	owner := make([]int, len(got)) // index of the matched expected alert plus one; zero if there is none
	var place func(w int, tried []bool) bool
	place = func(w int, tried []bool) bool {
		for g := range got {
			if tried[g] || !fitsAlert(want[w], got[g]) {
				continue
			}
			tried[g] = true
			if owner[g] == 0 || place(owner[g]-1, tried) {
				owner[g] = w + 1
				return true
			}
		}
		return false
	}
	for w := range want {
		if !place(w, make([]bool, len(got))) {
			return false
		}
	}
	return true
}

func fitsAlert(w rules.ExpectedAlert, x episodes.Episode) bool {
	for name, value := range w.Labels {
		if x.Labels[name] != value {
			return false
		}
	}
	for name, value := range w.Annotations {
		if x.Annotations[name] != value {
			return false
		}
	}
	return (w.StartsAt == nil || x.StartsAt.Equal(testStart.Add(*w.StartsAt))) &&
		(w.EndsAt == nil || x.EndsAt.Equal(testStart.Add(*w.EndsAt))) &&
		(w.Value == nil || x.Count == *w.Value)
}

func describe(eps []episodes.Episode) string {
	if len(eps) == 0 {
		return "none"
	}
	out := make([]string, len(eps))
	for i, x := range eps {
		out[i] = fmt.Sprintf("%s starts_at=%s value=%d", text.FormatLabels(x.Labels), x.StartsAt.Sub(testStart), x.Count)
		if !x.EndsAt.IsZero() {
			out[i] += fmt.Sprintf(" ends_at=%s (%s)", x.EndsAt.Sub(testStart), x.Reason)
		}
	}
	return strings.Join(out, "\n            ")
}

func describeExpected(want []rules.ExpectedAlert) string {
	if len(want) == 0 {
		return "none"
	}
	out := make([]string, len(want))
	for i, w := range want {
		out[i] = text.FormatLabels(w.Labels)
		if w.StartsAt != nil {
			out[i] += fmt.Sprintf(" starts_at=%s", *w.StartsAt)
		}
		if w.Value != nil {
			out[i] += fmt.Sprintf(" value=%d", *w.Value)
		}
		if w.EndsAt != nil {
			out[i] += fmt.Sprintf(" ends_at=%s", *w.EndsAt)
		}
		for _, name := range slices.Sorted(maps.Keys(w.Annotations)) {
			out[i] += fmt.Sprintf(" annotation %s=%q", name, w.Annotations[name])
		}
	}
	return strings.Join(out, "\n            ")
}

// Transition is a change of an alert's state in a test.
type Transition struct {
	Offset  time.Duration // time since the start of the test
	Episode episodes.Episode
}

// Trace runs the inputs of a test with a rule, which is enabled and is the only rule, up to the time until. It returns
// the changes of the alerts' states, and ignores the test's expectations. It returns an error if the rule cannot be
// compiled.
func Trace(r *rules.Rule, t rules.Test, until time.Duration) ([]Transition, error) {
	set, prog, err := ruleAlone(r)
	if err != nil {
		return nil, err
	}
	var out []Transition
	steps := testSteps(t)
	s := newSession(set, prog, testStart, episodes.Config{}, testSources(t, steps)...)
	s.notify = func(x episodes.Episode) { out = append(out, Transition{Offset: s.now.Sub(testStart), Episode: x}) }
	for ; len(steps) > 0; steps = steps[1:] {
		s.reachTime(testStart.Add(steps[0].at))
		if err := s.runInput(t, steps[0]); err != nil {
			return out, err
		}
		s.settleAt(testStart.Add(steps[0].at))
	}
	s.reachTime(testStart.Add(until))
	return out, nil
}

// RunTest runs one test with a rule, which is enabled and is the only rule. It returns the differences from the test's
// expectations, and an error if the rule cannot be compiled.
func RunTest(r *rules.Rule, t rules.Test) ([]string, error) {
	set, prog, err := ruleAlone(r)
	if err != nil {
		return nil, err
	}
	return runSafely(set, prog, t), nil
}
