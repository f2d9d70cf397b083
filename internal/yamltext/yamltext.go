// Package yamltext writes YAML that people read and change. It writes strings of several lines as blocks, and chooses
// quotes for other strings such that few of them need escapes.
package yamltext

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"
)

// Map is a mapping with ordered keys. A value is a string, Raw, a Map or a List.
type Map []Entry

// Entry is a key of a Map with its value. The key is written unquoted.
type Entry struct {
	Key   string
	Value any
}

// List is a sequence. Its items have the same types as the values of a Map.
type List []any

// Raw is YAML that is written without quotes, such as a number or a flow sequence.
type Raw string

// Add adds a key with its value, unless the value is empty.
func (m *Map) Add(key string, value any) {
	if reflect.ValueOf(value).Len() > 0 {
		*m = append(*m, Entry{key, value})
	}
}

// String returns the mapping as YAML, with each key on its own line.
func (m Map) String() string {
	var b strings.Builder
	for _, e := range m {
		writeEntry(&b, 0, e.Key+":", e.Value)
	}
	return b.String()
}

// String returns the sequence as YAML, with each item on its own lines.
func (l List) String() string {
	var b strings.Builder
	writeList(&b, 0, l)
	return b.String()
}

// writeEntry writes head and a value. head is a key with its colon, or a dash.
func writeEntry(b *strings.Builder, indent int, head string, value any) {
	space := strings.Repeat(" ", indent)
	switch v := value.(type) {
	case Map:
		fmt.Fprintf(b, "%s%s\n", space, head)
		for _, e := range v {
			writeEntry(b, indent+2, e.Key+":", e.Value)
		}
	case List:
		fmt.Fprintf(b, "%s%s\n", space, head)
		writeList(b, indent, v)
	case string:
		if !fitsBlock(v) {
			fmt.Fprintf(b, "%s%s %s\n", space, head, Quote(v))
			return
		}
		fmt.Fprintf(b, "%s%s |-\n", space, head)
		for line := range strings.SplitSeq(v, "\n") {
			b.WriteString(strings.TrimRight(space+"  "+line, " ") + "\n")
		}
	default:
		fmt.Fprintf(b, "%s%s %v\n", space, head, v)
	}
}

func writeList(b *strings.Builder, indent int, list List) {
	for _, item := range list {
		m, ok := item.(Map)
		if !ok {
			writeEntry(b, indent, "-", item)
			continue
		}
		head := strings.Repeat(" ", indent) + "- "
		for _, e := range m {
			var inner strings.Builder
			writeEntry(&inner, indent+2, e.Key+":", e.Value)
			b.WriteString(head + inner.String()[len(head):])
			head = strings.Repeat(" ", indent+2)
		}
	}
}

// fitsBlock reports whether a block can represent the string exactly.
func fitsBlock(s string) bool {
	first, _, several := strings.Cut(s, "\n")
	return several && first != "" && first[0] != ' ' && strings.TrimRight(s, " \n") == s && !strings.Contains(s, " \n") &&
		!strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && !IsPrintable(r) })
}

// IsPrintable reports whether a character is visible and may occur unescaped in YAML.
func IsPrintable(r rune) bool {
	return r == ' ' || unicode.IsGraphic(r) && !unicode.IsSpace(r) && r != unicode.ReplacementChar && r != 0xfeff
}

// Quote returns a string in double quotes, or in single quotes if double quotes would require escapes. The result is
// one line.
func Quote(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !IsPrintable(r) }) && strings.ContainsAny(s, `"\`) {
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\n':
			b.WriteString(`\n`)
		case IsPrintable(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// QuoteName returns a name, in quotes unless it is a plain word that YAML can only read as
// text.
func QuoteName(s string) string {
	plain := s != "" && s[0] > '9' && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z')
	})
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		plain = false
	}
	if !plain {
		return Quote(s)
	}
	return s
}
