// Package logline writes lines for sources that report a state or an event that no log
// contains. The lines have the form msg="..." key=value.
package logline

import (
	"strconv"
	"strings"
)

// Format returns a line with a message and fields. pairs are the names and values of the fields. msg is a constant
// without quotes. Values are quoted where necessary, and quotes inside a value are escaped, so a value can forge
// neither a field nor a text that begins with msg=".
func Format(msg string, pairs ...string) string {
	n := len(msg) + len(`msg=""`)
	for _, s := range pairs {
		n += len(s) + 3
	}
	b := make([]byte, 0, n)
	b = append(append(append(b, `msg="`...), msg...), '"')
	for i := 0; i+1 < len(pairs); i += 2 {
		b = append(append(append(b, ' '), pairs[i]...), '=')
		if value := pairs[i+1]; needsNoQuotes(value) {
			b = append(b, value...)
		} else {
			b = strconv.AppendQuote(b, value)
		}
	}
	return string(b)
}

// An unquoted "<" would begin a block of lines, and an unquoted comma or semicolon at the end would be lost.
func needsNoQuotes(value string) bool {
	if value == "" || value[0] == '<' || value[len(value)-1] == ',' || value[len(value)-1] == ';' {
		return false
	}
	return !strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r == '"' || r == '=' || r > '~' })
}
