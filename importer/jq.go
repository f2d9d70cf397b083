package importer

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"crowsnest/internal/lazyre"
	"crowsnest/strictyaml"
)

// jqMatcher translates a jq program that compares fields of a line with texts, joined by and, or
// and not. It refuses every other program.
func jqMatcher(at strictyaml.Pos, program string) (pattern, error) {
	if len(program) > maxRegex {
		return pattern{}, refusef("line %d, column %d: the jq program has %d bytes, more than %d", at.Line, at.Column, len(program), maxRegex)
	}
	p := &jqParser{rest: program}
	m, err := p.pipe()
	if p.space(); err == nil && p.rest != "" {
		err = p.errorf("%q is not understood", shorten(p.rest))
	}
	if err != nil {
		return pattern{}, refusef("line %d, column %d: this jq program is not a comparison of fields with texts: %s", at.Line, at.Column, err)
	}
	return all([]pattern{{regex: `^\s*\{`}, m}), nil
}

// maxJqDepth bounds parentheses.
const maxJqDepth = 32

type jqParser struct {
	rest  string
	depth int
}

func (p *jqParser) errorf(format string, args ...any) error { return fmt.Errorf(format, args...) }

func (p *jqParser) space() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

// word removes a word or symbol if it comes next.
func (p *jqParser) word(w string) bool {
	p.space()
	after, ok := strings.CutPrefix(p.rest, w)
	if !ok || isWordByte(w[len(w)-1]) && after != "" && isWordByte(after[0]) {
		return false
	}
	p.rest = after
	return true
}

func isWordByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

func (p *jqParser) or() (pattern, error) {
	m, err := p.and()
	branches := []pattern{m}
	for err == nil && p.word("or") {
		m, err = p.and()
		branches = append(branches, m)
	}
	if len(branches) > 1 {
		for i := range branches {
			if !branches[i].isPositive() {
				branches[i].regex = anyText
			}
		}
	}
	return oneOf(branches), err
}

func (p *jqParser) and() (pattern, error) {
	m, err := p.one()
	conditions := []pattern{m}
	for err == nil && p.word("and") {
		m, err = p.one()
		conditions = append(conditions, m)
	}
	return all(conditions), err
}

// pipe is an expression, or a field piped into a function. A pipe binds less than everything else.
func (p *jqParser) pipe() (m pattern, err error) {
	if p.depth++; p.depth > maxJqDepth {
		return m, p.errorf("it is nested too deep")
	}
	defer func() { p.depth-- }()
	p.space()
	before := p.rest
	path := jqPath.FindString(p.rest)
	if p.rest = p.rest[len(path):]; path != "" && p.word("|") {
		m, err = p.function(path[1:])
	} else {
		p.rest = before
		m, err = p.or()
	}
	for err == nil && p.word("|") {
		if !p.word("not") {
			return m, p.errorf("%q is not understood", shorten(p.rest))
		}
		m = negation(m)
	}
	return m, err
}

func (p *jqParser) one() (m pattern, err error) {
	if p.word("select") {
		if p.space(); !strings.HasPrefix(p.rest, "(") {
			return m, p.errorf("select needs (")
		}
	}
	if !p.word("(") {
		return p.comparison()
	}
	if m, err = p.pipe(); err == nil && !p.word(")") {
		err = p.errorf("a ) is missing before %q", shorten(p.rest))
	}
	return m, err
}

var jqPath = lazyre.New(`^(?:\.[A-Za-z_][A-Za-z0-9_]*)+`)

// comparison is a field and == or !=.
func (p *jqParser) comparison() (pattern, error) {
	p.space()
	path := jqPath.FindString(p.rest)
	if path == "" {
		return pattern{}, p.errorf("%q is not a field", shorten(p.rest))
	}
	p.rest = p.rest[len(path):]
	name := path[1:]
	switch {
	case p.word("=="):
		return p.compare(name, false)
	case p.word("!="):
		return p.compare(name, true)
	}
	return pattern{}, p.errorf("the field %s is not compared with anything", path)
}

func (p *jqParser) compare(name string, negated bool) (pattern, error) {
	value, err := p.value()
	if err != nil {
		return pattern{}, err
	}
	m := pattern{fields: []entry{{name, fieldValue(value)}}}
	if negated {
		m = negation(m)
	}
	return m, nil
}

// fieldValue is a value for a field, as an expression if it looks like one.
func fieldValue(v string) string {
	if strings.HasPrefix(v, "~") {
		return "~" + quoteMeta(v)
	}
	return v
}

var jqNumber = lazyre.New(`^-?[0-9]+(\.[0-9]+)?`)

func (p *jqParser) value() (string, error) {
	p.space()
	for _, w := range []string{"true", "false"} {
		if p.word(w) {
			return w, nil
		}
	}
	if n := jqNumber.FindString(p.rest); n != "" {
		p.rest = p.rest[len(n):]
		return n, nil
	}
	return p.text()
}

func (p *jqParser) text() (string, error) {
	p.space()
	quoted, err := strconv.QuotedPrefix(p.rest)
	if err != nil || quoted[0] != '"' {
		return "", p.errorf("%q is not a text", shorten(p.rest))
	}
	p.rest = p.rest[len(quoted):]
	if strings.Contains(quoted, `\(`) {
		return "", p.errorf("a text contains a program")
	}
	s, err := strconv.Unquote(quoted)
	return s, err
}

// function translates test, contains, startswith and endswith of a field.
func (p *jqParser) function(name string) (pattern, error) {
	for _, f := range []string{"test", "contains", "startswith", "endswith"} {
		if !p.word(f) {
			continue
		}
		if !p.word("(") {
			return pattern{}, p.errorf("%s needs a text in parentheses", f)
		}
		arg, err := p.text()
		if err != nil {
			return pattern{}, err
		}
		if !p.word(")") {
			return pattern{}, p.errorf("%s takes one text", f)
		}
		switch f {
		case "test":
			if _, err := regexp.Compile(arg); err != nil {
				return pattern{}, p.errorf("the expression is not RE2: %v", err)
			}
			arg = "(?s:.*)(?:" + arg + ")(?s:.*)"
		case "contains":
			arg = "(?s:.*)" + quoteMeta(arg) + "(?s:.*)"
		case "startswith":
			arg = quoteMeta(arg) + "(?s:.*)"
		case "endswith":
			arg = "(?s:.*)" + quoteMeta(arg)
		}
		return pattern{fields: []entry{{name, "~" + arg}}}, nil
	}
	return pattern{}, p.errorf("%q is not a comparison", shorten(p.rest))
}
