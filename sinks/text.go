package sinks

import (
	"strings"

	"crowsnest/redact"
)

// Clean makes a text of several lines harmless to show: each line is valid UTF-8
// without control characters, escape sequences, bidirectional controls and
// invisible characters.
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

// Neutral removes mentions of people, and markup that hides the target of a link in
// chat, from a rendered text. The rule's own links and code stay: values are made
// inert when a text is rendered.
func Neutral(s string) string { return redact.Unmentioned(s) }

// NeutralLine applies Neutral and Clean to log text: it returns one line, in which
// links and Markdown have no meaning.
func NeutralLine(s string) string { return redact.Inert(redact.Sanitise(s)) }
