package rules

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// InsertTest returns the text of a pack with one more test after the last test of a rule. It changes no other bytes,
// except for the number of tests in the header. test is the YAML of a list item without indentation. Its first line
// begins with "- ", and the other lines with two spaces. The error states why the test cannot be inserted.
func InsertTest(f File, alert string, test []string) ([]byte, error) {
	d, problems := Parse(f)
	if errs := problems.Errors(); len(errs) > 0 {
		return nil, errs
	}
	if d.IsOverrides() {
		return nil, fmt.Errorf("%s has overrides, not rules; name the pack of the rule", f.Name)
	}
	k := slices.IndexFunc(d.pack.Rules, func(r RuleSyntax) bool { return r.Alert == alert })
	if k < 0 {
		return nil, fmt.Errorf("%s has no rule %s", f.Name, alert)
	}
	in := inserter{doc: d, file: f, rule: newForm(d.pack, &d.pack.Rules[k], f.Name)}
	at, lines, err := in.findPlace(test)
	if err != nil {
		return nil, fmt.Errorf("%s:%d: %w; insert the test by hand", f.Name, in.rule.at.Line, err)
	}
	out := in.insertLines(at, lines)
	return out, in.verifyResult(out, k)
}

type inserter struct {
	doc  *Document
	file File
	rule form
}

// findPlace returns the line before which the test is inserted, and the indented test.
func (in *inserter) findPlace(test []string) (at int, lines []string, err error) {
	f := &in.rule
	start := f.RuleSyntax.Keys.Pos
	from, to := f.lines()
	if text := start.LineText(start.Line); start.Column > len(text) || text[start.Column-1] == '{' {
		return 0, nil, fmt.Errorf("rule %s is written in braces (YAML flow style)", f.Alert)
	}
	if !f.RuleSyntax.Keys.Has("tests") {
		key := strings.Repeat(" ", start.Column-1)
		lines = append([]string{key + "tests:"}, indentLines(key, test)...)
		return in.lastLine(from, to, start.Column-1) + 1, lines, nil
	}
	value := f.RuleSyntax.Keys.Value("tests")
	text := value.LineText(value.Line)
	if value.Line == f.RuleSyntax.Keys.Key("tests").Line || value.Column > len(text) || text[value.Column-1] != '-' {
		return 0, nil, fmt.Errorf("the tests of rule %s are not written as a list with dashes", f.Alert)
	}
	for _, name := range f.RuleSyntax.Keys.Names() {
		if l := f.RuleSyntax.Keys.Key(name).Line; l > value.Line {
			to = min(to, l-1)
		}
	}
	dash := text[:value.Column-1]
	return in.lastLine(from, to, len(dash)) + 1, indentLines(dash, test), nil
}

// lastLine returns the last line between start and end that belongs to the rule. Blank lines and comments at the end do
// not belong to it, unless the comments are indented deeper than indent.
func (in *inserter) lastLine(start, end, indent int) int {
	for ; end > start; end-- {
		text := in.rule.at.LineText(end)
		trimmed := strings.TrimLeft(text, " ")
		if strings.TrimSpace(trimmed) != "" && (trimmed[0] != '#' || len(text)-len(trimmed) > indent) {
			break
		}
	}
	return end
}

func indentLines(indent string, lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = indent + l
	}
	return out
}

// insertLines inserts lines before line n, counted from 1, with the line breaks of the file. If the header states the
// number of tests, insertLines increases that number by one.
func (in *inserter) insertLines(n int, lines []string) []byte {
	all, end := bytes.SplitAfter(in.file.Data, []byte("\n")), "\n"
	if bytes.Contains(in.file.Data, []byte("\r\n")) {
		end = "\r\n"
	}
	if h := &in.doc.pack.Pack; h.Keys.Has("tests") {
		pos := h.Keys.Value("tests")
		head, tail := all[pos.Line-1][:pos.Column-1], all[pos.Line-1][pos.Column-1:]
		if rest, ok := bytes.CutPrefix(tail, []byte(strconv.Itoa(h.Tests))); ok {
			all[pos.Line-1] = slices.Concat(head, []byte(strconv.Itoa(h.Tests+1)), rest)
		}
	}
	before, after := bytes.Join(all[:n-1], nil), bytes.Join(all[n-1:], nil)
	text := strings.Join(lines, end) + end
	if len(before) > 0 && before[len(before)-1] != '\n' {
		text = end + text
	}
	return slices.Concat(before, []byte(text), after)
}

// verifyResult checks that data is the pack with one more test of rule k and no other change.
func (in *inserter) verifyResult(data []byte, k int) error {
	d, problems := Parse(File{Name: in.file.Name, Data: data})
	if errs := problems.Errors(); len(errs) > 0 {
		return fmt.Errorf("%s would not be valid with the test; insert it by hand:\n%w", in.file.Name, errs)
	}
	was, is := in.doc.pack.Rules, d.pack.Rules
	for i := range was {
		more := 0
		if i == k {
			more = 1
		}
		if len(is) != len(was) || is[i].Alert != was[i].Alert || len(is[i].Tests) != len(was[i].Tests)+more || len(is[i].Keys.Names()) < len(was[i].Keys.Names()) {
			return fmt.Errorf("%s is written in a way that a test cannot be inserted into; insert it by hand", in.file.Name)
		}
	}
	return nil
}
