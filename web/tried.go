package web

import (
	"fmt"
	"strings"
	"sync"

	"crowsnest/internal/lazyre"
	"crowsnest/matcher"
	"crowsnest/rules"
	sel "crowsnest/rules/selector"
)

// TestOutcome is the result of one inline test of a rule.
type TestOutcome struct {
	Rule     string   `json:"rule"`
	Test     string   `json:"test"`
	Failures []string `json:"failures"` // reasons why the test failed; empty if it passed
}

// Tried describes the effect of rules on lines.
type Tried struct {
	Problems []string      `json:"problems"` // problems of the rules
	Lines    []TriedLine   `json:"lines"`
	Tests    []TestOutcome `json:"tests"`
	// Omitted is the number of lines that were not tried because there were too many.
	Omitted int `json:"omitted,omitempty"`
}

// TriedLine is the effect of the rules on one line.
type TriedLine struct {
	Line         string                `json:"line"`
	Matches      []string              `json:"matches"` // names of the rules that match
	Explanations []matcher.Explanation `json:"explanations"`
}

// tryRules applies the rules of a request to its lines and reports the matches. It does not evaluate whether a failure
// results from them.
func (p *scanner) tryRules(req ScanRequest, labels matcher.Labels) (*Tried, error) {
	out := &Tried{Problems: []string{}, Lines: []TriedLine{}, Tests: []TestOutcome{}}
	set, problems := buildRules(req.Rules)
	out.Problems = append(out.Problems, problems...)
	if set == nil {
		return out, nil
	}
	for line := range strings.SplitSeq(strings.TrimRight(req.Lines, "\r\n"), "\n") {
		if line = strings.TrimSuffix(line, "\r"); strings.TrimSpace(line) == "" {
			continue
		}
		if len(out.Lines) == maxExplained {
			out.Omitted++
			continue
		}
		out.Lines = append(out.Lines, explainLine(set, labels, line))
	}
	if rules.TestTime(set.Rules) > maxTestTime {
		out.Problems = append(out.Problems, "the tests were not run: they may take too long here; use `crowsnest test rules` on your machine")
		return out, nil
	}
	if p.tests != nil {
		results, err := p.tests(set.Rules)
		if err != nil {
			return out, err
		}
		out.Tests = append(out.Tests, results...)
	}
	return out, nil
}

func explainLine(set *rules.Set, labels matcher.Labels, line string) TriedLine {
	out := TriedLine{Line: tameText(line), Matches: []string{}, Explanations: []matcher.Explanation{}}
	for _, r := range set.Rules {
		e := matcher.Explain(r, labels, []byte(line))
		if e.Matches() {
			out.Matches = append(out.Matches, r.Alert)
		}
		if len(out.Explanations) < maxExplained {
			out.Explanations = append(out.Explanations, e)
		}
	}
	return out
}

func scanLabels(text string) (matcher.Labels, error) {
	out := matcher.Labels{}
	if text = strings.TrimSpace(text); text == "" {
		return out, nil
	}
	if !strings.HasPrefix(text, "{") {
		text = "{" + text + "}"
	}
	from, err := sel.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("labels: %w; write them like {namespace=\"team-a\",container=\"manager\"}", err)
	}
	for _, m := range from.Matchers() {
		if m.Op != sel.Equal {
			return nil, fmt.Errorf("labels: %s is not a value; write %s=\"...\"", m, m.Name)
		}
		out[m.Name] = m.Value
	}
	return out, nil
}

// listOfRules matches text that begins with a list item, and so contains a list of rules instead of a pack.
var listOfRules = lazyre.New(`^(\s*(#.*)?\n)*\s*- `)

const triedPack = "pack: {name: tried, version: 0.0.0}\nrules:\n"

// buildRules builds a set from the rules in text. If the rules have errors, it returns nil and the errors.
func buildRules(text string) (*rules.Set, []string) {
	shift := 0
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if listOfRules.MatchString(text) {
		text, shift = triedPack+text, strings.Count(triedPack, "\n")
	}
	doc, problems := rules.Parse(rules.File{Name: "rules", Data: []byte(text)})
	var set *rules.Set
	if len(problems.Errors()) == 0 {
		set, problems = rules.Build([]*rules.Document{doc}, rules.Options{})
	}
	var out []string
	for _, p := range problems {
		if p.Line > 0 {
			p.Line = max(1, p.Line-shift)
		}
		out = append(out, tameText(p.String()))
	}
	if len(problems.Errors()) > 0 {
		set = nil
	}
	return set, out
}

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

// ruleTests returns the results of a rule's inline tests, or the reason why there are none. As on the page Scan, it
// tests one rule at a time and runs no tests that may take long.
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
