package sinks

import (
	"strings"

	"crowsnest/redact"
)

// CleanLines makes a text of several lines harmless to display. Each line of the result is
// valid UTF-8 without control characters, escape sequences, bidirectional controls and
// invisible characters.
func CleanLines(s string) string {
	if !strings.Contains(s, "\n") {
		return redact.Sanitise(s)
	}
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = redact.Sanitise(lines[i])
	}
	return strings.Join(lines, "\n")
}

// NeutraliseText removes from a rendered text mentions of people, and markup that hides the
// target of a link in a chat. Links and code of the rule itself stay. Values were already made
// inert when the text was rendered.
func NeutraliseText(s string) string { return redact.Unmentioned(s) }

// NeutralLine makes a log text harmless. It returns one line in which links and Markdown have
// no effect.
func NeutralLine(s string) string { return redact.Inert(redact.Sanitise(s)) }
