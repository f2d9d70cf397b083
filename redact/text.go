package redact

import (
	"strings"
)

// Text is text without secrets. Only this package makes one from a variable (TestTextIsRedacted
// in package test), so whatever keeps, shows or sends a line of a log takes a Text. A part of
// a Text is a Text.
type Text string

// Text returns s without secrets. A nil Redactor hides none: redaction is turned off.
func (r *Redactor) Text(s string) Text {
	if r == nil {
		return Text(s)
	}
	return Text(r.String(s))
}

// Label returns the value of a label of a stream, which its source states: the text of a line
// has no part in it.
func Label(value string) Text { return Text(value) }

// Map returns what f makes of the text, such as a shorter form. f must not add other text.
func (t Text) Map(f func(string) string) Text { return Text(f(string(t))) }

// Clone returns the text in memory of its own.
func (t Text) Clone() Text { return Text(strings.Clone(string(t))) }
