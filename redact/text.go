package redact

import (
	"strings"
)

// Text is text without secrets. Only this package converts a variable to a Text, which TestTextIsRedacted in package
// test checks. Therefore all code that keeps, shows or sends a log line requires a Text. A substring of a Text is a
// Text.
type Text string

// Text returns s without secrets. A nil Redactor hides nothing, because redaction is turned off.
func (r *Redactor) Text(s string) Text {
	if r == nil {
		return Text(s)
	}
	return Text(r.String(s))
}

// Label returns the value of a stream label as a Text. It does not redact the value, because the value comes from the
// source and not from the text of a line.
func Label(value string) Text { return Text(value) }

// Map returns f(t). f must return only text from its argument, for example a shorter form.
func (t Text) Map(f func(string) string) Text { return Text(f(string(t))) }

// Clone returns a copy of the text that shares no memory with it.
func (t Text) Clone() Text { return Text(strings.Clone(string(t))) }
