package discover

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// RuleSkeleton is the input for one rule of a pack.
type RuleSkeleton struct {
	Alert    string
	Severity string // "": derived from the level of the line
	// Label and Value select the streams. An empty Label writes a placeholder
	// container, which the author must replace.
	Label, Value string
	Proposal     Proposal
	// Others match the same cause in other words: see Gather.
	Others []Proposal
	// Comments are written above the rule; they come without "#".
	Comments []string
}

// placeholderContainer is the container of a rule for unknown streams.
const placeholderContainer = "NAME-OF-THE-CONTAINER"

// Skeleton writes a pack. The pack passes check and test if the proposals hold.
func Skeleton(pack string, all []RuleSkeleton) string {
	var rules strings.Builder
	tests := 0
	for i := range all {
		text, n := all[i].write()
		rules.WriteString(text)
		tests += n
	}
	return fmt.Sprintf("pack: {name: %s, version: 0.1.0, rules: %d, tests: %d}\nrules:\n%s", pack, len(all), tests, rules.String())
}

// PackOf returns a pack with the most specific of some proposals whose pack passes try,
// which checks and tests it.
func PackOf(name string, proposals []Proposal, s RuleSkeleton, try func(pack []byte) error) (string, error) {
	if len(proposals) == 0 {
		return "", errors.New("the line has no constant text of at least 8 letters to match; use another line")
	}
	var err error
	for _, p := range proposals {
		rule := s
		if rule.Proposal = p; rule.Alert == "" {
			rule.Alert = AlertName(p.LongestText(), map[string]bool{})
		}
		pack := Skeleton(name, []RuleSkeleton{rule})
		if err = try([]byte(pack)); err == nil {
			return pack, nil
		}
	}
	return "", fmt.Errorf("no rule for this line passes its tests; please report this: %w", err)
}

// PackFor is PackOf for a line of a pattern: its template and that of its error, one a
// line. The labels are those of its stream.
func PackFor(name, line, template string, labels map[string]string, try func(pack []byte) error) (string, error) {
	s := RuleSkeleton{}
	s.Label, s.Value = SelectorOf(labels)
	return PackOf(name, propose(line, template), s, try)
}

// SelectorOf returns the label that best selects the streams of a component, "" if
// the labels have none.
func SelectorOf(labels map[string]string) (label, value string) {
	for _, name := range []string{"container", "app", "unit", "job", "component"} {
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

// AlertName derives a name from a text: its first words, in CamelCase. It appends a
// number to a taken name, and adds the result to taken.
func AlertName(text string, taken map[string]bool) string {
	var b strings.Builder
	words := strings.FieldsFunc(text, func(r rune) bool { return r > unicode.MaxASCII || !letterOrDigit(byte(r)) && r != '\'' })
	for _, w := range words {
		w = strings.ReplaceAll(w, "'", "")
		if w == "" || b.Len() == 0 && !letter(w[0]) {
			continue
		}
		if b.Len() > 0 && b.Len()+len(w) > maxName {
			break
		}
		b.WriteString(strings.ToUpper(w[:1]) + w[1:min(len(w), maxName)])
	}
	name := b.String()
	if name == "" {
		name = "UnknownComplaint"
	}
	for n := 2; taken[name]; n++ {
		if name = b.String() + strconv.Itoa(n); b.Len() == 0 {
			name = "UnknownComplaint" + strconv.Itoa(n)
		}
	}
	taken[name] = true
	return name
}

// maxName bounds the length of an alert name.
const maxName = 48

type writer struct {
	strings.Builder
	s     *RuleSkeleton
	tests int
	once  bool // the example line has been written
}

func (s *RuleSkeleton) write() (text string, tests int) {
	if s.Label == "" {
		s.Label, s.Value = "container", placeholderContainer
		s.Comments = append(s.Comments, "TODO: say whose logs are read: from, and the streams of the tests.")
	}
	if s.Severity == "" {
		s.Severity = SeverityOf(s.Proposal.Level)
	}
	w := &writer{s: s}
	w.head()
	w.allTests()
	return w.String(), w.tests
}

func (w *writer) f(format string, args ...any) { fmt.Fprintf(w, format, args...) }

func (w *writer) head() {
	s, p := w.s, &w.s.Proposal
	for _, c := range s.Comments {
		w.f("# %s\n", c)
	}
	w.f("- alert: %s\n  from: %s\n", s.Alert, single(fmt.Sprintf("{%s=%s}", s.Label, strconv.Quote(s.Value))))
	w.match()
	by := "namespace"
	about := "in namespace {{ $labels.namespace }}"
	if p.Object != "" {
		by += ", " + p.Object
		about = "{{ $labels." + p.Object + " }} " + about
	}
	w.f("  by: [%s]\n  severity: %s\n  annotations:\n", by, s.Severity)
	w.f("    summary: %s\n", quoted("TODO, in one sentence: "+strings.Join(p.Texts, ": ")+": "+about))
	w.f("  remediation:\n    summary: %s\n", quoted("TODO: what the on-call does first"))
}

// simple reports whether one text suffices to match the line.
func (p *Proposal) simple() bool { return len(p.Texts) == 1 && p.Regex == "" && p.Field == "" }

func (w *writer) match() {
	p := &w.s.Proposal
	switch {
	case len(w.s.Others) > 0:
		w.f("  match:\n    any:\n")
		w.branch(p)
		for i := range w.s.Others {
			w.branch(&w.s.Others[i])
		}
	case p.simple():
		w.f("  match: %s\n", quoted(p.Texts[0]))
	default:
		w.f("  match:\n    ")
		w.conditions(p, "\n    ")
	}
}

// branch writes one of several matchers.
func (w *writer) branch(p *Proposal) {
	w.f("    - ")
	if p.simple() {
		w.f("%s\n", quoted(p.Texts[0]))
		return
	}
	w.conditions(p, "\n      ")
}

func (w *writer) conditions(p *Proposal, sep string) {
	texts := make([]string, len(p.Texts))
	for i, t := range p.Texts {
		texts[i] = quoted(t)
	}
	w.f("contains: [%s]", strings.Join(texts, ", "))
	if p.Regex != "" {
		w.f("%sregex: %s", sep, single(p.Regex))
	}
	if p.Field != "" {
		w.f("%sfield: {%s: %s}", sep, p.Field, single("~"+p.FieldRegex))
	}
	w.f("\n")
}

// allTests writes a test for each condition of the rule, which fails without it.
func (w *writer) allTests() {
	p := &w.s.Proposal
	w.f("  tests:\n")
	w.test("the line fires, in each namespace by itself", w.s.Value,
		w.input("0s", p.Line, "")+",\n    "+w.input("1s", p.Line, "elsewhere"),
		"{at: 30s, firing: ["+w.alert("default", p.Value, 0)+", "+w.alert("elsewhere", p.Value, 0)+"]}", "{at: 20m, firing: none}")
	if p.Other != "" {
		expect := w.alert("default", p.Value, 2)
		if p.Object != "" {
			expect = w.alert("default", p.Value, 0) + ", " + w.alert("default", p.OtherValue, 0)
		}
		w.test("with other values", w.s.Value, w.input("0s", p.Line, "")+",\n    "+w.input("1s", p.Other, ""), "{at: 30s, firing: ["+expect+"]}")
	}
	w.test("another line does not", w.s.Value, w.input("0s", "everything is fine", ""), "{at: 30s, firing: none}")
	w.without(p)
	for i := range w.s.Others {
		o := &w.s.Others[i]
		value := ""
		if o.Object == p.Object {
			value = o.Value
		}
		w.test("in other words: "+o.LongestText(), w.s.Value, w.input("0s", o.Line, ""), "{at: 30s, firing: ["+w.alert("default", value, 0)+"]}")
		w.without(o)
	}
	w.test("the line of another "+w.s.Label+" does not", "another-one", w.input("0s", p.Line, ""), "{at: 30s, firing: none}")
}

// without writes a test for each text of a matcher with several conditions: the
// line without that text does not match.
func (w *writer) without(p *Proposal) {
	if p.simple() {
		return
	}
	for _, t := range p.Texts {
		w.test("nor one without: "+t, w.s.Value, w.input("0s", withoutText(p.Line, t), ""), "{at: 30s, firing: none}")
	}
}

// withoutText returns a line without a text. It keeps all but the first word: an
// expression may match from there on.
func withoutText(line, text string) string {
	_, rest, _ := strings.Cut(text, " ")
	return strings.ReplaceAll(line, text, "something "+rest)
}

func (w *writer) test(name, value, input string, expect ...string) {
	w.tests++
	stream := fmt.Sprintf("{namespace: default, pod: example-0, %s: %s}", w.s.Label, quoted(value))
	w.f("  - name: %s\n    stream: %s\n    input: [%s]\n    expect: [%s]\n", quoted(name), stream, input, strings.Join(expect, ", "))
}

func (w *writer) input(at, line, namespace string) string {
	labels := ""
	if namespace != "" {
		labels = ", labels: {namespace: " + namespace + "}"
	}
	text := quoted(line)
	if line == w.s.Proposal.Line { // written in full once, then as an alias
		if text = "&" + w.s.Alert + " " + text; w.once {
			text = "*" + w.s.Alert
		}
		w.once = true
	}
	return fmt.Sprintf("{at: %s, line: %s%s}", at, text, labels)
}

func (w *writer) alert(namespace, value string, count int) string {
	fields := []string{"alertname: " + w.s.Alert, "namespace: " + namespace}
	if p := &w.s.Proposal; p.Object != "" && value != "" {
		fields = append(fields, p.Object+": "+quoted(value))
	}
	if count > 0 {
		fields = append(fields, "value: "+strconv.Itoa(count))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// quoted writes a text in double quotes; YAML understands Go's escapes.
func quoted(s string) string { return strconv.Quote(s) }

// single writes a text in single quotes.
func single(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Distinct drops skeletons that match the same as an earlier one. It modifies all.
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
