package rules

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxSelector bounds the text of a selector, in bytes.
const MaxSelector = 16 << 10

const selectorExample = `write it like {namespace="capi-system", container=~"manager|syncer"}`

// ParseSelector reads a stream selector: label names with =, !=, =~ or !~ and a
// value in double quotes or backticks, separated by commas, one comma after the
// last is allowed. As in LogQL one condition at least must refuse the empty
// value, or the selector would choose streams by what they are not. An error is
// a *SyntaxError.
func ParseSelector(s string) (Selector, error) {
	switch {
	case len(s) > MaxSelector:
		return Selector{}, syntaxErrorf(MaxSelector, "split the rule in two", "the selector is longer than %d bytes", MaxSelector)
	case !utf8.ValidString(s):
		return Selector{}, syntaxErrorf(invalidAt(s), "save the file as UTF-8", "the selector is not valid UTF-8")
	}
	p := &selectorParser{in: s}
	matchers, err := p.parse()
	if err != nil {
		return Selector{}, err
	}
	return Selector{matchers: matchers}, nil
}

func invalidAt(s string) int {
	for i, r := range s {
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD") {
			return i
		}
	}
	return len(s)
}

type selectorParser struct {
	in  string
	pos int
}

func (p *selectorParser) parse() ([]LabelMatcher, error) {
	p.space()
	if err := p.open(); err != nil {
		return nil, err
	}
	var out []LabelMatcher
	for {
		p.space()
		if p.take("}") {
			break
		}
		at := p.pos
		m, err := p.matcher()
		if err != nil {
			return nil, err
		}
		if err := contradiction(out, m, at); err != nil {
			return nil, err
		}
		out = append(out, m)
		p.space()
		if p.take(",") {
			continue
		}
		if !p.take("}") {
			return nil, p.wantSeparator()
		}
		break
	}
	p.space()
	if p.pos < len(p.in) {
		return nil, p.trailing()
	}
	return out, checkNotEmpty(out)
}

func (p *selectorParser) open() error {
	switch {
	case p.take("{"):
		return nil
	case p.pos == len(p.in):
		return syntaxErrorf(p.pos, selectorExample, "the selector is empty")
	}
	if at := strings.IndexByte(p.in, '{'); at > 0 && !strings.ContainsAny(p.in[:at], `="~`) {
		return syntaxErrorf(p.pos, "remove what stands before the {", "a stream selector has no name before its braces")
	}
	return syntaxErrorf(p.pos, "put the matchers into braces: {"+strings.TrimSpace(p.in)+"}", "the selector does not begin with {")
}

// checkNotEmpty refuses selectors that a stream without any label satisfies.
func checkNotEmpty(ms []LabelMatcher) error {
	for _, m := range ms {
		if !m.Matches("") {
			return nil
		}
	}
	if len(ms) == 0 {
		return syntaxErrorf(0, selectorExample, "every selector needs at least one matcher")
	}
	return syntaxErrorf(0, `add one that asks for a value, such as namespace=~".+"`,
		"every matcher of the selector accepts a stream without the label")
}

// contradiction finds two equalities that no stream can satisfy together: such
// a rule would be blind without a word.
func contradiction(before []LabelMatcher, m LabelMatcher, at int) error {
	for _, b := range before {
		if b.Name == m.Name && b.Op == MatchEqual && m.Op == MatchEqual && b.Value != m.Value {
			fix := m.Name + "=~" + strconv.Quote(regexp.QuoteMeta(b.Value)+"|"+regexp.QuoteMeta(m.Value)) + " means either"
			return syntaxErrorf(at, fix, "no stream has %s and %s", b, m)
		}
	}
	return nil
}

func (p *selectorParser) matcher() (LabelMatcher, error) {
	m := LabelMatcher{}
	var err error
	if m.Name, err = p.name(); err != nil {
		return m, err
	}
	p.space()
	if m.Op, err = p.op(); err != nil {
		return m, err
	}
	p.space()
	at := p.pos
	if m.Value, err = p.value(); err != nil {
		return m, err
	}
	if m.Op == MatchRegexp || m.Op == MatchNotRegexp {
		if m.re, err = anchored(m.Value); err != nil {
			return m, syntaxErrorf(at, regexFix(m.Value), "the value of %s is not a regular expression: %s", m.Name, regexReason(err))
		}
	}
	return m, nil
}

// anchored compiles a pattern that must match the whole of a value. The pattern
// is compiled on its own first, because "a)|(b" would become valid inside the
// group.
func anchored(pattern string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(pattern); err != nil {
		return nil, err
	}
	return regexp.Compile("^(?s:" + pattern + ")$")
}

// regexReason drops the prefix of the regexp package.
func regexReason(err error) string {
	var se *syntax.Error
	if errors.As(err, &se) {
		return se.Code.String() + " `" + se.Expr + "`"
	}
	return err.Error()
}

func regexFix(pattern string) string {
	if strings.HasPrefix(pattern, "*") {
		return `regular expressions are not globs: write .* for *`
	}
	return "see https://github.com/google/re2/wiki/Syntax"
}

func (p *selectorParser) name() (string, error) {
	start := p.pos
	for p.pos < len(p.in) && isNameByte(p.in[p.pos], p.pos > start) {
		p.pos++
	}
	name := p.in[start:p.pos]
	next, rest := p.peek(), p.in[p.pos:]
	switch {
	case next == 0:
		return "", p.wantSeparator()
	case name == "" && next == ',':
		return "", syntaxErrorf(start, "remove the comma", "a comma without a matcher before it")
	case name == "" && (next == '"' || next == '`' || next == '\''):
		return "", syntaxErrorf(start, `names stand without quotes: container="manager"`, "a quoted label name")
	case name == "" || strings.IndexByte("-./:", rest[0]) >= 0:
		return "", syntaxErrorf(p.pos, "names are letters, digits and _, as app_kubernetes_io_name", "%q cannot be part of a label name", next)
	}
	return name, nil
}

func isNameByte(c byte, inside bool) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || inside && c >= '0' && c <= '9'
}

func (p *selectorParser) op() (MatchOp, error) {
	if strings.HasPrefix(p.in[p.pos:], "==") {
		return "", syntaxErrorf(p.pos, "write = for equal, =~ for a regular expression", "== is no operator")
	}
	for _, op := range []MatchOp{MatchRegexp, MatchNotRegexp, MatchNotEqual, MatchEqual} {
		if p.take(string(op)) {
			return op, nil
		}
	}
	if p.pos == len(p.in) {
		return "", p.wantSeparator()
	}
	return "", syntaxErrorf(p.pos, "write =, !=, =~ or !~ after the name", "no operator but %q", p.peek())
}

func (p *selectorParser) value() (string, error) {
	start := p.pos
	switch c := p.peek(); c {
	case 0:
		return "", syntaxErrorf(start, `write the value in double quotes`, "the value is missing")
	case '`':
		end := strings.IndexByte(p.in[start+1:], '`')
		if end < 0 {
			return "", syntaxErrorf(start, "write ` behind it", "the value has no closing backtick")
		}
		p.pos += end + 2
		return p.in[start+1 : p.pos-1], nil
	case '"':
		return p.quoted()
	case '\'':
		return "", syntaxErrorf(start, "write double quotes or backticks", "a value in single quotes")
	default:
		return "", syntaxErrorf(start, "write it in double quotes", "the value is not quoted")
	}
}

// quoted reads a value in double quotes, with the escapes of Go.
func (p *selectorParser) quoted() (string, error) {
	start := p.pos
	var b strings.Builder
	rest := p.in[start+1:]
	for rest != "" && rest[0] != '"' && rest[0] != '\n' {
		r, multibyte, tail, err := strconv.UnquoteChar(rest, '"')
		if err != nil {
			at := len(p.in) - len(rest)
			return "", syntaxErrorf(at, `write \\ for a backslash, or the value in backticks`, "an unknown escape in the value")
		}
		if r >= utf8.RuneSelf && !multibyte {
			at := len(p.in) - len(rest)
			return "", syntaxErrorf(at, `write the character itself or \u`, "an escape that is not valid UTF-8")
		}
		b.WriteRune(r)
		rest = tail
	}
	if rest == "" || rest[0] != '"' {
		return "", syntaxErrorf(start, `write " behind it`, "the value has no closing quote")
	}
	p.pos = len(p.in) - len(rest) + 1
	return b.String(), nil
}

func (p *selectorParser) wantSeparator() error {
	if p.pos == len(p.in) {
		return syntaxErrorf(p.pos, "write } at its end", "the selector has no closing }")
	}
	return syntaxErrorf(p.pos, "separate matchers by commas", "want , or } but got %q", p.peek())
}

func (p *selectorParser) trailing() error {
	switch p.peek() {
	case '|', '!':
		return syntaxErrorf(p.pos, "the text to look for belongs into `match`", "a filter behind the selector")
	case '[':
		return syntaxErrorf(p.pos, "the window belongs into `within`", "a range behind the selector")
	}
	return syntaxErrorf(p.pos, "remove it", "text behind the selector")
}

func (p *selectorParser) space() {
	for p.pos < len(p.in) && strings.IndexByte(" \t\r\n", p.in[p.pos]) >= 0 {
		p.pos++
	}
}

func (p *selectorParser) take(s string) bool {
	if !strings.HasPrefix(p.in[p.pos:], s) {
		return false
	}
	p.pos += len(s)
	return true
}

// peek returns the next character, or 0 at the end.
func (p *selectorParser) peek() rune {
	if p.pos == len(p.in) {
		return 0
	}
	r, _ := utf8.DecodeRuneInString(p.in[p.pos:])
	return r
}
