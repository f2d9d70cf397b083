// Package logline writes the lines of sources that describe a state or an event which
// no log contains: msg="..." key=value.
package logline

import (
	"strconv"
	"strings"
)

// Format returns a line with a message and fields, given as names and values. Values are
// quoted where necessary, so that a value forges neither a field nor a text that begins
// with msg=": a quote inside a value is always escaped. msg is a constant without quotes.
func Format(msg string, pairs ...string) string {
	n := len(msg) + len(`msg=""`)
	for _, s := range pairs {
		n += len(s) + 3
	}
	b := make([]byte, 0, n)
	b = append(append(append(b, `msg="`...), msg...), '"')
	for i := 0; i+1 < len(pairs); i += 2 {
		b = append(append(append(b, ' '), pairs[i]...), '=')
		if value := pairs[i+1]; plain(value) {
			b = append(b, value...)
		} else {
			b = strconv.AppendQuote(b, value)
		}
	}
	return string(b)
}

// plain reports whether the fields of a line can be read without quotes around a value:
// a "<" begins a block of lines, and a comma or semicolon at the end is not read.
func plain(value string) bool {
	if value == "" || value[0] == '<' || value[len(value)-1] == ',' || value[len(value)-1] == ';' {
		return false
	}
	return !strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r == '"' || r == '=' || r > '~' })
}
