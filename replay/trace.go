package replay

import (
	"time"

	"crowsnest/episodes"
	"crowsnest/rules"
)

// Transition is a change of an alert at a time of a test.
type Transition struct {
	At      time.Duration // time since the start of the test
	Episode episodes.Episode
}

// Trace runs the inputs of a test against a rule, enabled and alone, and returns how its
// alerts change up to a time. It ignores what the test expects. It returns an error if the
// rule cannot be compiled.
func Trace(r *rules.Rule, t rules.Test, until time.Duration) ([]Transition, error) {
	set, prog, err := alone(r)
	if err != nil {
		return nil, err
	}
	var out []Transition
	steps := stepsOf(t)
	s := newSession(set, prog, testStart, episodes.Config{}, sourcesOf(t, steps)...)
	s.notify = func(x episodes.Episode) { out = append(out, Transition{At: s.now.Sub(testStart), Episode: x}) }
	for ; len(steps) > 0; steps = steps[1:] {
		s.reach(testStart.Add(steps[0].at))
		if err := s.input(t, steps[0]); err != nil {
			return out, err
		}
		s.settle(testStart.Add(steps[0].at))
	}
	s.reach(testStart.Add(until))
	return out, nil
}

// RunTest runs one test against a rule, enabled and alone, and returns the differences
// from what it expects. It returns an error if the rule cannot be compiled.
func RunTest(r *rules.Rule, t rules.Test) ([]string, error) {
	set, prog, err := alone(r)
	if err != nil {
		return nil, err
	}
	return runSafely(set, prog, t), nil
}
