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

// TestOptions configure RunTests.
type TestOptions struct {
	// Run, if not nil, selects tests by "rule/test".
	Run *regexp.Regexp
	// Mutate also runs the tests of each rule against the rule with one part
	// removed or loosened.
	Mutate bool
}

// TestResult is the outcome of one inline test.
type TestResult struct {
	File     string        `json:"file"`
	Line     int           `json:"line"`
	Pack     string        `json:"pack"`
	Rule     string        `json:"rule"`
	Test     string        `json:"test"`
	Failures []string      `json:"failures"` // empty: it passed
	Duration time.Duration `json:"-"`
}

// Survivor is a part of a rule that no test protects.
type Survivor struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Rule string `json:"rule"`
	Part string `json:"part"`
}

// TestReport is the outcome of all tests.
type TestReport struct {
	Results   []TestResult
	Mutants   int
	Survivors []Survivor
}

// Failed is the number of tests that failed.
func (r TestReport) Failed() int {
	n := 0
	for _, t := range r.Results {
		if len(t.Failures) > 0 {
			n++
		}
	}
	return n
}

// RunTests runs the inline tests of every rule, each rule alone and enabled. It returns
// an error if a rule cannot be compiled.
func RunTests(all []*rules.Rule, opt TestOptions) (TestReport, error) {
	type outcome struct {
		results   []TestResult
		mutants   int
		survivors []Survivor
		err       error
	}
	outcomes := parallel(all, func(r *rules.Rule) (o outcome) {
		o.results, o.err = runRule(r, opt.Run)
		if o.err == nil && opt.Mutate && passed(o.results) {
			o.mutants, o.survivors, o.err = mutate(packed(r), opt.Run)
		}
		return o
	})
	var report TestReport
	for _, o := range outcomes {
		if o.err != nil {
			return report, o.err
		}
		report.Results = append(report.Results, o.results...)
		report.Mutants += o.mutants
		report.Survivors = append(report.Survivors, o.survivors...)
	}
	return report, nil
}

func passed(results []TestResult) bool {
	return !slices.ContainsFunc(results, func(t TestResult) bool { return len(t.Failures) > 0 })
}

// packed returns the rule that the tests are about.
func packed(r *rules.Rule) *rules.Rule {
	if r.Packed != nil {
		return r.Packed
	}
	return r
}

func alone(r *rules.Rule) (*rules.Set, *matcher.Program, error) {
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
	r = packed(r)
	set, prog, err := alone(r)
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

// step is one input of a test at its time, with repetitions expanded.
type step struct {
	at, ts time.Duration
	in     *rules.Input
	index  int
	ends   bool // the alert of a cause ends
}

func stepsOf(t rules.Test) []step {
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

// runSafely is runTest; it turns a panic or a quarantined rule into a failure.
func runSafely(set *rules.Set, prog *matcher.Program, t rules.Test) (failures []string) {
	defer func() {
		if p := recover(); p != nil {
			failures = []string{fmt.Sprintf("line %d: the rule failed because of a defect of crowsnest: %v", t.Line, p)}
		}
	}()
	return runTest(set, prog, t)
}

// runTest returns the failures, one text per difference.
func runTest(set *rules.Set, prog *matcher.Program, t rules.Test) []string {
	steps, causes := stepsOf(t), stubs(t)
	s := newSession(withStubs(set, causes), prog, testStart, episodes.Config{}, sourcesOf(t, steps)...)
	s.stubs = causes
	points := slices.Clone(t.Expect)
	slices.SortStableFunc(points, func(a, b rules.Checkpoint) int { return cmp.Compare(a.At, b.At) })
	var failures []string
	for len(steps) > 0 || len(points) > 0 {
		at := nextTime(steps, points)
		s.reach(testStart.Add(at))
		for ; len(steps) > 0 && steps[0].at == at; steps = steps[1:] {
			if err := s.input(t, steps[0]); err != nil {
				return append(failures, fmt.Sprintf("line %d: %s", steps[0].in.Line, err))
			}
		}
		if len(points) > 0 && points[0].At == at {
			s.endRecords(testStart.Add(at))
		}
		s.settle(testStart.Add(at))
		for ; len(points) > 0 && points[0].At == at; points = points[1:] {
			failures = append(failures, check(points[0], s)...)
		}
	}
	if len(s.engine.Quarantined()) > 0 || len(prog.Quarantined()) > 0 {
		failures = append(failures, fmt.Sprintf("line %d: the evaluation of the rule failed because of a defect of crowsnest", t.Line))
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

func (s *session) input(t rules.Test, st step) error {
	at := testStart.Add(st.at)
	s.now = at
	switch {
	case st.in.Source != "":
		s.lose(st.in.Source == "lost", sourceOf(t, st))
		return nil
	case st.in.Do == "restart":
		return s.restart()
	case st.in.Cause != "":
		s.cause(st)
		return nil
	}
	labels, text := lineOf(t, st)
	if st.in.Do == "gone" {
		s.engine.PodDeleted(labels, at)
		return nil
	}
	s.line(labels, testStart.Add(st.ts), text, at)
	return nil
}

// sourceOf returns the labels of the stream whose source is lost or back; nil means every source
// is.
func sourceOf(t rules.Test, st step) matcher.Labels {
	if len(st.in.Labels) == 0 {
		return nil
	}
	labels, _ := lineOf(t, st)
	return labels
}

// sourcesOf returns the streams whose sources a test takes away or brings back one by one.
func sourcesOf(t rules.Test, steps []step) (out []matcher.Labels) {
	for _, st := range steps {
		if st.in.Source == "" {
			continue
		}
		labels := sourceOf(t, st)
		if labels != nil && !slices.ContainsFunc(out, func(o matcher.Labels) bool { return maps.Equal(o, labels) }) {
			out = append(out, labels)
		}
	}
	return out
}

func lineOf(t rules.Test, st step) (labels matcher.Labels, text string) {
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

func check(c rules.Checkpoint, s *session) []string {
	var out []string
	fail := func(what string, want []rules.ExpectedAlert, got []episodes.Episode) {
		out = append(out, fmt.Sprintf("line %d: at %s: %s\n  expected: %s\n  got:      %s", c.Line, c.At, what, describeExpected(want), describe(got)))
	}
	if c.HasFiring {
		got := slices.SortedFunc(maps.Values(s.firing), func(a, b episodes.Episode) int {
			return strings.Compare(text.Labels(a.Labels), text.Labels(b.Labels))
		})
		if len(got) != len(c.Firing) || !assign(c.Firing, got) {
			fail("firing alerts differ", c.Firing, got)
		}
	}
	if len(c.Resolved) > 0 && !assign(c.Resolved, s.resolved) {
		fail("resolved alerts differ", c.Resolved, s.resolved)
	}
	return out
}

// assign reports whether each expected alert can be assigned an actual one of its own.
func assign(want []rules.ExpectedAlert, got []episodes.Episode) bool {
	owner := make([]int, len(got)) // 1 + index of the expected alert
	var place func(w int, tried []bool) bool
	place = func(w int, tried []bool) bool {
		for g := range got {
			if tried[g] || !fits(want[w], got[g]) {
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

func fits(w rules.ExpectedAlert, x episodes.Episode) bool {
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
