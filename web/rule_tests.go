package web

import (
	"sync"

	"crowsnest/rules"
)

// testResults caches the test results of the loaded rules. It is safe for concurrent use.
type testResults struct {
	mu   sync.Mutex
	set  *rules.Set
	done map[*rules.Rule][]TestOutcome
}

func (t *testResults) findResults(set *rules.Set, r *rules.Rule) ([]TestOutcome, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.set != set {
		t.set, t.done = set, map[*rules.Rule][]TestOutcome{}
	}
	out, ok := t.done[r]
	return out, ok
}

func (t *testResults) keepResults(set *rules.Set, r *rules.Rule, out []TestOutcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.set == set {
		t.done[r] = out
	}
}

// ruleTests returns the results of a rule's inline tests, or why there are none. Like the page
// Scan, it tests one rule at a time and runs no tests that may take long.
func (s *Server) ruleTests(r *rules.Rule) ([]TestOutcome, string) {
	switch {
	case len(r.Tests) == 0:
		return nil, "The daemon has no tests of this rule: those of shipped rules ran before the release."
	case s.scanner.tests == nil:
		return nil, "This process runs no tests."
	case rules.TestTime([]*rules.Rule{r}) > maxTestTime:
		return nil, "The tests may take too long here: run `crowsnest test rules` on your machine."
	}
	set := s.view.Rules().Set
	if out, ok := s.results.findResults(set, r); ok {
		return out, ""
	}
	select {
	case s.scanner.turn <- struct{}{}:
		defer func() { <-s.scanner.turn }()
	default:
		return nil, "The tests were not run: a scan is running."
	}
	out, err := s.scanner.tests([]*rules.Rule{r})
	if err != nil {
		return nil, "The tests could not be run: " + tameText(err.Error())
	}
	s.results.keepResults(set, r, out)
	return out, ""
}
