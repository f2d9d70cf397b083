package importer

import (
	"fmt"
	"strings"

	"crowsnest/internal/lazyre"
)

var patternCapture = lazyre.New(`<[A-Za-z_][A-Za-z0-9_]*>`)

// linePattern is a pattern such as `<ip> - <_> "<method> <_>`. It starts at the start of the line, and
// a capture ends where the text after it occurs first.
type linePattern struct {
	texts []string // before each capture, and after the last one
	names []string // of the captures; _ for none
}

func parsePattern(p string) (*linePattern, error) {
	found := patternCapture.FindAllStringIndex(p, -1)
	if len(found) == 0 {
		return nil, fmt.Errorf("the pattern has no capture such as <name>")
	}
	out := &linePattern{}
	end := 0
	for i, f := range found {
		if i > 0 && f[0] == end {
			return nil, fmt.Errorf("two captures of the pattern have no text between them")
		}
		out.texts, out.names = append(out.texts, p[end:f[0]]), append(out.names, p[f[0]+1:f[1]-1])
		end = f[1]
	}
	out.texts = append(out.texts, p[end:])
	return out, nil
}

// regex returns the pattern as an expression. The captures in values must have these values, which
// are expressions.
func (l *linePattern) regex(values map[string]string) string {
	var b strings.Builder
	b.WriteByte('^')
	for i, name := range l.names {
		b.WriteString(quoteMeta(l.texts[i]))
		group := until(l.texts[i+1])
		value, demanded := values[name]
		if demanded {
			group = value
		}
		if name != "_" {
			group = "(?P<" + name + ">" + group + ")"
		}
		b.WriteString(group)
		if demanded && l.texts[i+1] == "" {
			b.WriteByte('$')
		}
	}
	return b.String() + quoteMeta(l.texts[len(l.texts)-1])
}

// until returns an expression for a text that ends before another one.
func until(text string) string {
	runes := []rune(text)
	negated := func(r rune) string {
		if strings.ContainsRune(`\]^-`, r) {
			return `[^\` + string(r) + "]"
		}
		return "[^" + string(r) + "]"
	}
	switch len(runes) {
	case 0:
		return ".*"
	case 1:
		return negated(runes[0]) + "*"
	}
	return "(?:" + negated(runes[0]) + "|" + quoteMeta(string(runes[0])) + negated(runes[1]) + ")*"
}
