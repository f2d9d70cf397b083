package selector

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"crowsnest/rules/internal/expr"
)

// maxSelector is the maximum length of a selector in bytes.
const maxSelector = 16 << 10

const selectorExample = `write it like {namespace="capi-system", container=~"manager|syncer"}`

// Parse parses a selector of streams, which consists of matchers in braces, separated by commas. A matcher is a label
// name, one of =, !=, =~ and !~, and a value in double quotes or backticks. A comma may follow the last matcher. As in
// LogQL, at least one matcher must not match the empty value. Otherwise the selector would select streams only by
// labels that they lack. An error is a *expr.SyntaxError.
func Parse(s string) (Selector, error) { return parse(s, "") }

// ParseFields is Parse for a selector with names of fields, which may also contain dots, slashes and hyphens.
func ParseFields(s string) (Selector, error) { return parse(s, "./-") }

func parse(s, inNames string) (Selector, error) {
	switch {
	case len(s) > maxSelector:
		return Selector{}, expr.Errorf(maxSelector, "split the rule in two", "the selector is longer than %d bytes", maxSelector)
	case !utf8.ValidString(s):
		return Selector{}, expr.Errorf(expr.InvalidAt(s), "save the file as UTF-8", "the selector is not valid UTF-8")
	}
	p := &parser{in: s, inNames: inNames}
	matchers, err := p.parse()
	if err != nil {
		return Selector{}, err
	}
	out := Selector{matchers: matchers}
	out.text = out.String()
	return out, nil
}

type parser struct {
	in      string
	pos     int
	inNames string // bytes that names may contain after the first one, besides those of labels
}

func (p *parser) parse() ([]Matcher, error) {
	p.skipSpace()
	if err := p.parseOpen(); err != nil {
		return nil, err
	}
	var out []Matcher
	for {
		p.skipSpace()
		if p.accept("}") {
			break
		}
		at := p.pos
		m, err := p.parseMatcher()
		if err != nil {
			return nil, err
		}
		if err := checkContradiction(out, m, at); err != nil {
			return nil, err
		}
		out = append(out, m)
		p.skipSpace()
		if p.accept(",") {
			continue
		}
		if !p.accept("}") {
			return nil, p.separatorError()
		}
		break
	}
	p.skipSpace()
	if p.pos < len(p.in) {
		return nil, p.checkTrailing()
	}
	return out, checkNotEmpty(out)
}

func (p *parser) parseOpen() error {
	switch {
	case p.accept("{"):
		return nil
	case p.pos == len(p.in):
		return expr.Errorf(p.pos, selectorExample, "the selector is empty")
	}
	if at := strings.IndexByte(p.in, '{'); at > 0 && !strings.ContainsAny(p.in[:at], `="~`) {
		return expr.Errorf(p.pos, "remove the text before the {", "a stream selector has no name before its braces")
	}
	return expr.Errorf(p.pos, "put the matchers into braces: {"+strings.TrimSpace(p.in)+"}", "the selector does not start with {")
}

// checkNotEmpty refuses selectors that match a stream without labels. A selector with component="" is allowed, because
// it states that it selects logs of every kind.
func checkNotEmpty(ms []Matcher) error {
	if slices.ContainsFunc(ms, func(m Matcher) bool { return !m.Matches("") || m.Name == componentLabel }) {
		return nil
	}
	if len(ms) == 0 {
		return expr.Errorf(0, selectorExample, "every selector needs at least one matcher")
	}
	return expr.Errorf(0, `add one that requires a value, such as namespace=~".+"; or component="" for logs of containers, units and files alike`,
		"every matcher of the selector accepts a stream without the label")
}

// checkContradiction returns an error if m and an earlier matcher require different values of one label. A rule with
// such a selector could never match.
func checkContradiction(before []Matcher, m Matcher, i int) error {
	for _, b := range before {
		if b.Name == m.Name && b.Op == Equal && m.Op == Equal && b.Value != m.Value {
			fix := "to match either, write " + m.Name + "=~" + strconv.Quote(regexp.QuoteMeta(b.Value)+"|"+regexp.QuoteMeta(m.Value))
			return expr.Errorf(i, fix, "no stream has %s and %s", b, m)
		}
	}
	return nil
}

func (p *parser) parseMatcher() (Matcher, error) {
	m := Matcher{}
	var err error
	if m.Name, err = p.parseName(); err != nil {
		return m, err
	}
	p.skipSpace()
	if m.Op, err = p.parseOp(); err != nil {
		return m, err
	}
	p.skipSpace()
	at := p.pos
	if m.Value, err = p.parseValue(); err != nil {
		return m, err
	}
	if m.Op == Regexp || m.Op == NotRegexp {
		if m.re, err = expr.ParseAnchored(m.Value); err != nil {
			return m, expr.Errorf(at, expr.SuggestFix(m.Value), "the value of %s is not a regular expression: %s", m.Name, expr.Reason(err))
		}
	}
	return m, nil
}

func (p *parser) parseName() (string, error) {
	start := p.pos
	for p.pos < len(p.in) && (isNameByte(p.in[p.pos], p.pos > start) || p.pos > start && strings.IndexByte(p.inNames, p.in[p.pos]) >= 0) {
		p.pos++
	}
	name := p.in[start:p.pos]
	next, rest := p.peek(), p.in[p.pos:]
	switch {
	case next == 0:
		return "", p.separatorError()
	case name == "" && next == ',':
		return "", expr.Errorf(start, "remove the comma", "there is no matcher before the comma")
	case name == "" && (next == '"' || next == '`' || next == '\''):
		return "", expr.Errorf(start, `write the name without quotes: container="manager"`, "the label name is in quotes")
	case name == "" || strings.IndexByte("-./:", rest[0]) >= 0:
		return "", expr.Errorf(p.pos, "use letters, digits and _, as in app_kubernetes_io_name", "%q cannot be part of a label name", next)
	}
	return name, nil
}

func isNameByte(c byte, inside bool) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || inside && c >= '0' && c <= '9'
}

func (p *parser) parseOp() (Op, error) {
	if strings.HasPrefix(p.in[p.pos:], "==") {
		return "", expr.Errorf(p.pos, "write = for equal, =~ for a regular expression", "== is not an operator")
	}
	for _, op := range []Op{Regexp, NotRegexp, NotEqual, Equal} {
		if p.accept(string(op)) {
			return op, nil
		}
	}
	if p.pos == len(p.in) {
		return "", p.separatorError()
	}
	return "", expr.Errorf(p.pos, "write =, !=, =~ or !~ after the name", "%q is not an operator", p.peek())
}

func (p *parser) parseValue() (string, error) {
	start := p.pos
	switch c := p.peek(); c {
	case 0:
		return "", expr.Errorf(start, `write the value in double quotes`, "the value is missing")
	case '`':
		end := strings.IndexByte(p.in[start+1:], '`')
		if end < 0 {
			return "", expr.Errorf(start, "add a ` after it", "the value has no closing backtick")
		}
		p.pos += end + 2
		return p.in[start+1 : p.pos-1], nil
	case '"':
		return p.parseQuoted()
	case '\'':
		return "", expr.Errorf(start, "write double quotes or backticks", "the value is in single quotes")
	default:
		return "", expr.Errorf(start, "write it in double quotes", "the value is not quoted")
	}
}

// parseQuoted parses a value in double quotes with Go's escapes.
func (p *parser) parseQuoted() (string, error) {
	start := p.pos
	var b strings.Builder
	rest := p.in[start+1:]
	for rest != "" && rest[0] != '"' && rest[0] != '\n' {
		r, multibyte, tail, err := strconv.UnquoteChar(rest, '"')
		if err != nil {
			return "", expr.Errorf(len(p.in)-len(rest), `write \\ for a backslash, or put the value in backticks`, "the value has an unknown escape")
		}
		if r >= utf8.RuneSelf && !multibyte {
			return "", expr.Errorf(len(p.in)-len(rest), `write the character itself or \u`, "the value has an escape that is not valid UTF-8")
		}
		b.WriteRune(r)
		rest = tail
	}
	if rest == "" || rest[0] != '"' {
		return "", expr.Errorf(start, `add a " after it`, "the value has no closing quote")
	}
	p.pos = len(p.in) - len(rest) + 1
	return b.String(), nil
}

func (p *parser) separatorError() error {
	if p.pos == len(p.in) {
		return expr.Errorf(p.pos, "add a } at its end", "the selector has no closing }")
	}
	return expr.Errorf(p.pos, "separate matchers with commas", "expected a comma or }, but found %q", p.peek())
}

func (p *parser) checkTrailing() error {
	switch p.peek() {
	case '|', '!':
		return expr.Errorf(p.pos, "put the text to search for into `match`", "a line filter follows the selector")
	case '[':
		return expr.Errorf(p.pos, "put the window into `within`", "a range follows the selector")
	}
	return expr.Errorf(p.pos, "remove it", "text follows the selector")
}

func (p *parser) skipSpace() {
	for p.pos < len(p.in) && strings.IndexByte(" \t\r\n", p.in[p.pos]) >= 0 {
		p.pos++
	}
}

func (p *parser) accept(s string) bool {
	if !strings.HasPrefix(p.in[p.pos:], s) {
		return false
	}
	p.pos += len(s)
	return true
}

// peek returns the next character without consuming it, or 0 at the end.
func (p *parser) peek() rune {
	if p.pos == len(p.in) {
		return 0
	}
	r, _ := utf8.DecodeRuneInString(p.in[p.pos:])
	return r
}
