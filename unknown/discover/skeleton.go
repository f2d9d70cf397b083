package discover

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RuleSkeleton is the input from which one rule of a pack is written.
type RuleSkeleton struct {
	Alert    string
	Severity string // severity of the rule; empty if it follows from the level of the line
	// Label and Value select the streams. If Label is empty, the rule has a placeholder for the
	// container, which the author must replace.
	Label, Value string
	// Labels are the labels of the line's stream. Component is the stream's name in alerts.
	// Both may be empty.
	Labels    map[string]string
	Component string
	Proposal  Proposal
	// Comments are written above the rule. They have no leading "#".
	Comments []string
}

// placeholderContainer is the container in a rule for unknown streams.
const placeholderContainer = "NAME-OF-THE-CONTAINER"

// Skeleton writes a pack. The pack passes its checks and tests if the proposals are correct.
func Skeleton(pack string, all []RuleSkeleton) string {
	var rules strings.Builder
	for i := range all {
		rules.WriteString(all[i].write())
	}
	return fmt.Sprintf("pack: {name: %s, version: 0.1.0}\nrules:\n%s", pack, rules.String())
}

// FirstPassing returns s with the most specific proposal whose pack passes try. try checks and
// tests a pack. If s.Alert is empty, the name is derived from the proposal.
func FirstPassing(proposals []Proposal, s RuleSkeleton, try func(pack []byte) error) (RuleSkeleton, error) {
	if len(proposals) == 0 {
		return s, errors.New("the line has no constant text of at least 8 letters to match; use another line")
	}
	var err error
	for _, p := range proposals {
		rule := s
		if rule.Proposal = p; rule.Alert == "" {
			rule.Alert = AlertName(s.Component, &p, map[string]bool{})
		}
		if err = try([]byte(Skeleton("new", []RuleSkeleton{rule}))); err == nil {
			return rule, nil
		}
	}
	return s, fmt.Errorf("no rule for this line passes its tests; please report this: %w", err)
}

// PackFor returns the pack for a line of a pattern, with the rule that FirstPassing chooses.
// The first line of template is the template of the message, and the second line is the
// template of the error. labels are the labels of the line's stream.
func PackFor(name, line, template string, labels map[string]string, try func(pack []byte) error) (string, error) {
	s := RuleSkeleton{Labels: labels, Component: ComponentOf(labels)}
	s.Label, s.Value = SelectorOf(labels)
	rule, err := FirstPassing(propose(line, template), s, try)
	if err != nil {
		return "", err
	}
	return Skeleton(name, []RuleSkeleton{rule}), nil
}

// SelectorOf returns the label that best selects the streams of a component. It returns "" if
// labels contain none.
func SelectorOf(labels map[string]string) (label, value string) {
	for _, name := range []string{"container", "unit", "identifier", "app", "job", "component"} {
		if labels[name] != "" {
			return name, labels[name]
		}
	}
	return "", ""
}

// SeverityOf returns the severity of a rule for lines of this level.
func SeverityOf(l Level) string {
	if l == levelFatal {
		return "critical"
	}
	return "warning"
}

// A wait must repeat for longer than the quiet time that ends the failure. Otherwise a single
// line would make the rule fire.
const (
	repeatFor = 15 * time.Minute
	quietFor  = 10 * time.Minute
)

type writer struct {
	strings.Builder
	s            *RuleSkeleton
	wroteExample bool // whether the example line has been written
	// place is the label that shows the origin of a stream. home and away are two values of
	// this label.
	place, home, away string
	repeats           bool          // whether lines must repeat before the rule fires
	fires             time.Duration // time in a test at which the rule fires
}

func (s *RuleSkeleton) write() string {
	if s.Label == "" {
		s.Label, s.Value = "container", placeholderContainer
		s.Comments = append(s.Comments, "TODO: say whose logs are read: from, and the streams of the tests.")
	}
	if s.Severity == "" {
		s.Severity = SeverityOf(s.Proposal.Level)
	}
	w := &writer{s: s, place: "namespace", home: "default", away: "elsewhere", fires: 30 * time.Second}
	if s.Label == "unit" || s.Label == "identifier" {
		w.place, w.home, w.away = "node", "node-0", "node-1"
	}
	if s.Proposal.Waits {
		w.repeats, w.fires = true, repeatFor+time.Minute
	}
	w.head()
	w.allTests()
	return w.String()
}

func (w *writer) f(format string, args ...any) { fmt.Fprintf(w, format, args...) }

func (w *writer) head() {
	s, p := w.s, &w.s.Proposal
	for _, c := range s.Comments {
		w.f("# %s\n", c)
	}
	w.f("- alert: %s\n  from: %s\n", s.Alert, single(fmt.Sprintf("{%s=%s}", s.Label, strconv.Quote(s.Value))))
	w.match()
	if w.repeats {
		w.f("  for: %s\n", minutes(repeatFor))
		w.f("  keep_firing_for: %s # ends if the line does not repeat for this long\n", minutes(quietFor))
	}
	by := w.place
	about := "in namespace {{ $labels.namespace }}"
	if w.place == "node" {
		about = "on node {{ $labels.node }}"
	}
	if p.Object != "" {
		by += ", " + p.Object
		about = "{{ $labels." + p.Object + " }} " + about
	}
	w.f("  by: [%s]\n  severity: %s\n  annotations:\n", by, s.Severity)
	w.f("    summary: %s\n", quoted("TODO, in one sentence: "+strings.Join(p.Texts, ": ")+": "+about))
	w.f("  remediation:\n    summary: %s\n", quoted("TODO: what the on-call does first"))
}

func minutes(d time.Duration) string { return strconv.Itoa(int(d.Minutes())) + "m" }

func (p *Proposal) simple() bool { return len(p.Texts) == 1 && p.Regex == "" && p.Field == "" }

func (w *writer) match() {
	p := &w.s.Proposal
	if p.simple() {
		w.f("  match: %s\n", quoted(p.Texts[0]))
		return
	}
	texts := make([]string, len(p.Texts))
	for i, t := range p.Texts {
		texts[i] = quoted(t)
	}
	w.f("  match:\n    contains: [%s]", strings.Join(texts, ", "))
	if p.Regex != "" {
		w.f("\n    regex: %s", single(p.Regex))
	}
	if p.Field != "" {
		w.f("\n    field: {%s: %s}", p.Field, single("~"+p.FieldRegex))
	}
	w.f("\n")
}

// allTests writes a test for each condition of the rule. Each test fails if its condition is
// removed from the rule.
func (w *writer) allTests() {
	p := &w.s.Proposal
	w.f("  tests:\n")
	expect := []string{w.firing(w.alert(w.home, p.Value, 0), w.alert(w.away, p.Value, 0))}
	if w.repeats {
		expect = append([]string{fmt.Sprintf("{at: %s, firing: none}", minutes(repeatFor-time.Minute))}, expect...)
	}
	expect = append(expect, fmt.Sprintf("{at: %s, firing: none}", minutes(w.quiet())))
	w.test("the line fires, in each "+w.place+" by itself", w.s.Value, w.input("0s", p.Line, "")+",\n    "+w.input("1s", p.Line, w.away), expect...)
	if p.OtherLine != "" {
		both := w.firing(w.alert(w.home, p.Value, 2))
		if p.Object != "" {
			both = w.firing(w.alert(w.home, p.Value, 0), w.alert(w.home, p.OtherValue, 0))
		}
		w.test("with other values", w.s.Value, w.input("0s", p.Line, "")+",\n    "+w.input("1s", p.OtherLine, ""), both)
	}
	w.test("another line does not", w.s.Value, w.input("0s", "everything is fine", ""), w.firing())
	if !p.simple() {
		for _, t := range p.Texts {
			w.test("nor one without: "+t, w.s.Value, w.input("0s", withoutText(p.Line, t), ""), w.firing())
		}
	}
	w.test("the line of another "+w.s.Label+" does not", "another-one", w.input("0s", p.Line, ""), w.firing())
}

// quiet returns the time in the first test when the alert has ended because no further line
// follows.
func (w *writer) quiet() time.Duration {
	if w.repeats {
		return w.fires + 5*time.Minute + quietFor
	}
	return 20 * time.Minute
}

// withoutText returns a line in which the first word of text is replaced. The other words
// stay, because the regular expression may match from the next word on.
func withoutText(line, text string) string {
	_, rest, _ := strings.Cut(text, " ")
	return strings.ReplaceAll(line, text, "something "+rest)
}

func (w *writer) test(name, value, input string, expect ...string) {
	stream := fmt.Sprintf("{namespace: default, pod: example-0, %s: %s}", w.s.Label, quoted(value))
	if w.place == "node" {
		stream = fmt.Sprintf("{node: %s, %s: %s}", w.home, w.s.Label, quoted(value))
	}
	w.f("  - name: %s\n    stream: %s\n    input: [%s]\n    expect: [%s]\n", quoted(name), stream, input, strings.Join(expect, ", "))
}

// input writes a line that arrives in a test. If the line must repeat, it writes repetitions
// until after the rule has fired.
func (w *writer) input(sep, line, place string) string {
	more := ""
	if w.repeats {
		more = fmt.Sprintf(", repeat: %d, every: 1m", int(w.fires.Minutes())+3)
	}
	if place != "" {
		more += ", labels: {" + w.place + ": " + place + "}"
	}
	text := quoted(line)
	if line == w.s.Proposal.Line { // the line is written in full once, and afterwards as a YAML alias
		if text = "&" + w.s.Alert + " " + text; w.wroteExample {
			text = "*" + w.s.Alert
		}
		w.wroteExample = true
	}
	return fmt.Sprintf("{at: %s, line: %s%s}", sep, text, more)
}

func (w *writer) firing(alerts ...string) string {
	at := "30s"
	if w.repeats {
		at = minutes(w.fires)
	}
	if len(alerts) == 0 {
		return "{at: " + at + ", firing: none}"
	}
	return "{at: " + at + ", firing: [" + strings.Join(alerts, ", ") + "]}"
}

func (w *writer) alert(place, value string, count int) string {
	fields := []string{"alertname: " + w.s.Alert, w.place + ": " + place}
	if p := &w.s.Proposal; p.Object != "" && value != "" {
		fields = append(fields, p.Object+": "+quoted(value))
	}
	if count > 0 && !w.repeats {
		fields = append(fields, "value: "+strconv.Itoa(count))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// quoted writes a text in double quotes. YAML understands Go's escapes.
func quoted(s string) string { return strconv.Quote(s) }

func single(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Distinct drops skeletons whose rule matches the same lines as the rule of an earlier
// skeleton. It modifies all.
func Distinct(all []RuleSkeleton) []RuleSkeleton {
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(s RuleSkeleton) bool {
		p := &s.Proposal
		key := strings.Join(append([]string{s.Label, s.Value, p.Regex, p.Field}, p.Texts...), "\x00")
		was := seen[key]
		seen[key] = true
		return was
	})
}
