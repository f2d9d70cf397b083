package sinks

import (
	"strings"

	"crowsnest/redact"
)

// Clean makes text of several lines harmless where it is shown: each line is
// valid UTF-8 without control characters, escape sequences, bidirectional
// controls and invisible characters.
func Clean(s string) string {
	if !strings.Contains(s, "\n") {
		return redact.Sanitise(s)
	}
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = redact.Sanitise(lines[i])
	}
	return strings.Join(lines, "\n")
}

// Neutral takes from a rendered text the power to mention people or to hide
// where a link leads, in chat. The rule's own links and code stay: values are
// made inert when a text is rendered.
func Neutral(s string) string { return redact.Unmentioned(s) }

// NeutralLine is Neutral and Clean for text of a log: it makes one line, in which
// links and Markdown have no meaning.
func NeutralLine(s string) string { return redact.Inert(redact.Sanitise(s)) }
