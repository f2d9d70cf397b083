package redact

import (
	"strings"
)

// Text is text without secrets. Only this package creates one from a variable, which
// TestTextIsRedacted in package test checks. So everything that keeps, shows or sends a log
// line requires a Text. A part of a Text is a Text.
type Text string

// Text returns s without secrets. A nil Redactor hides none, because redaction is turned off.
func (r *Redactor) Text(s string) Text {
	if r == nil {
		return Text(s)
	}
	return Text(r.String(s))
}

// Label returns the value of a stream label. It is not redacted, because the source states it
// and it does not come from the text of a line.
func Label(value string) Text { return Text(value) }

// Map returns the result of f for the text, such as a shorter form. f must not add other text.
func (t Text) Map(f func(string) string) Text { return Text(f(string(t))) }

// Clone returns a copy of the text that shares no memory with it.
func (t Text) Clone() Text { return Text(strings.Clone(string(t))) }
