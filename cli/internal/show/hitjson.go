package show

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/bits"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// hitEncoder writes hits as JSON, as encoding/json would. What hits of a rule, a part and a
// stream share is encoded once.
type hitEncoder struct {
	file   string
	rule   *rules.Rule
	part   matcher.Part
	head   []byte // up to the number of the line; empty: nothing is known
	vars   []hitVar
	labels matcher.Labels
	stream []byte // of labels; empty: nothing is known
	clock  clock
}

// hitVar is a captured name of a rule: its index, and the key.
type hitVar struct {
	index int
	key   []byte
}

// append appends the object of a hit, and a newline. shown is the line; value returns what to
// show of a captured value.
func (e *hitEncoder) append(b []byte, file string, hit *matcher.Hit, shown string, value func(string) string) ([]byte, error) {
	e.prepare(file, hit)
	b = append(b, e.head...)
	b = strconv.AppendInt(b, hit.LineNumber, 10)
	b = append(b, `,"time":"`...)
	b, err := e.clock.append(b, hit.Time)
	if err != nil {
		return nil, fmt.Errorf("write the time of line %d of %s: %w", hit.LineNumber, file, err)
	}
	b = append(b, '"')
	b = append(b, e.stream...)
	separator := byte('{')
	for _, v := range e.vars {
		if v.index >= len(hit.Values) || hit.Values[v.index] == "" {
			continue
		}
		b = append(append(b, separator), v.key...)
		b = appendQuoted(b, value(hit.Values[v.index]))
		separator = ','
	}
	if separator == '{' {
		b = append(b, separator)
	}
	b = append(b, `},"line":`...)
	return append(appendQuoted(b, shown), "}\n"...), nil
}

// clock writes times. It keeps the text of a second.
type clock struct {
	second int64
	text   []byte // up to the seconds; empty: nothing is known
}

// append appends a time in UTC as the method AppendText of time.Time does, and returns its error.
func (c *clock) append(b []byte, t time.Time) ([]byte, error) {
	if second := t.Unix(); len(c.text) == 0 || second != c.second {
		text, err := time.Unix(second, 0).UTC().AppendText(c.text[:0])
		if err != nil {
			c.text = c.text[:0]
			return b, err
		}
		c.second, c.text = second, text[:len(text)-len("Z")]
	}
	b = append(b, c.text...)
	if ns := t.Nanosecond(); ns != 0 {
		var digits [10]byte // with the point
		digits[0] = '.'
		n := 1
		for k := len(digits) - 1; k > 0; k-- {
			digits[k] = byte('0' + ns%10)
			ns /= 10
			if n == 1 && digits[k] != '0' {
				n = k + 1
			}
		}
		b = append(b, digits[:n]...)
	}
	return append(b, 'Z'), nil
}

// prepare encodes what depends on the file, the rule, the part and the stream.
func (e *hitEncoder) prepare(file string, hit *matcher.Hit) {
	if e.rule != hit.Rule {
		e.rule, e.head, e.vars = hit.Rule, e.head[:0], varsOf(hit.Rule)
	}
	if len(e.head) == 0 || e.part != hit.Part || e.file != file {
		e.part, e.file = hit.Part, file
		b := appendQuoted(append(e.head[:0], `{"rule":`...), hit.Rule.Alert)
		b = appendQuoted(append(b, `,"part":`...), hit.Part.Name(hit.Rule))
		b = appendQuoted(append(b, `,"file":`...), file)
		e.head = append(b, `,"line_number":`...)
	}
	if len(e.stream) == 0 || reflect.ValueOf(e.labels).Pointer() != reflect.ValueOf(hit.Labels).Pointer() {
		e.labels = hit.Labels
		e.stream = append(appendLabels(append(e.stream[:0], `,"labels":`...), hit.Labels), `,"vars":`...)
	}
}

// varsOf returns the captured names of a rule in order, which is that of the keys.
func varsOf(r *rules.Rule) []hitVar {
	out := make([]hitVar, len(r.CapturedNames))
	for i := range out {
		out[i].index = i
	}
	slices.SortFunc(out, func(a, b hitVar) int { return strings.Compare(r.CapturedNames[a.index], r.CapturedNames[b.index]) })
	for i := range out {
		out[i].key = append(appendQuoted(nil, r.CapturedNames[out[i].index]), ':')
	}
	return out
}

func appendLabels(b []byte, labels matcher.Labels) []byte {
	if labels == nil {
		return append(b, "null"...)
	}
	b = append(b, '{')
	for i, name := range slices.Sorted(maps.Keys(labels)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendQuoted(append(appendQuoted(b, name), ':'), labels[name])
	}
	return append(b, '}')
}

// appendQuoted appends s as a string of JSON, as encoding/json does without escapes for HTML. It
// copies eight bytes, and goes on at the first of them that is to be escaped.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	i := 0
	for i+8 <= len(s) {
		n := len(b)
		if cap(b)-n < 16 {
			b = slices.Grow(b, len(s)-i+16)
		}
		w := word(s[i:])
		binary.LittleEndian.PutUint64(b[n:n+8], w)
		special := specials(w)
		if special == 0 {
			b = b[:n+8]
			i += 8
			continue
		}
		literal := bits.TrailingZeros64(special) / 8
		n, i = n+literal, i+literal
		if c := s[i]; c == '"' || c == '\\' { // the usual ones
			b = b[:n+2]
			b[n], b[n+1] = '\\', c
			i++
			continue
		}
		b, i = appendEscaped(b[:n], s, i)
	}
	for i < len(s) {
		b, i = appendEscaped(b, s, i)
	}
	return append(b, '"')
}

// specials returns a word whose lowest bit, if any, is in the first of eight bytes that does
// not stand for itself in JSON: quotes, backslashes, control characters and what is not
// ASCII.
func specials(w uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote, backslash := w^ones*'"', w^ones*'\\'
	// Below the lowest top bit that is set, no byte is special: a byte that borrows from the
	// next is special itself.
	return (w | (w - ones*' ') | (quote - ones) | (backslash - ones)) & tops
}

// appendEscaped appends the character of s at i, and returns where the next one is.
func appendEscaped(b []byte, s string, i int) ([]byte, int) {
	switch c := s[i]; {
	case c == '"' || c == '\\':
		return append(b, '\\', c), i + 1
	case c < ' ':
		return appendControl(b, c), i + 1
	case c < utf8.RuneSelf:
		return append(b, c), i + 1
	}
	escape, n := notASCII(s[i:])
	if escape == "" {
		escape = s[i : i+n]
	}
	return append(b, escape...), i + n
}

// word returns the first eight bytes of s, the first one lowest: one load.
func word(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func appendControl(b []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	if k := strings.IndexByte("\b\f\n\r\t", c); k >= 0 {
		return append(b, '\\', "bfnrt"[k])
	}
	return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
}

// notASCII returns how many bytes the character at the beginning of s has, and what replaces
// it; "": it stands for itself.
func notASCII(s string) (escape string, n int) {
	switch c, n := utf8.DecodeRuneInString(s); {
	case c == utf8.RuneError && n == 1:
		return `\ufffd`, n
	case c == '\u2028':
		return `\u2028`, n
	case c == '\u2029':
		return `\u2029`, n
	default:
		return "", n
	}
}
