package sinks

import (
	"regexp"
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

var (
	// chatMarkup starts a mention or a link in Slack: <!channel>, <@U1>, <#C1>,
	// <https://x|text>.
	chatMarkup = regexp.MustCompile(`(?i)<([!@#]|[a-z][a-z0-9+.-]*:)`)
	// mention calls everybody where names are looked for in plain text.
	mention = regexp.MustCompile(`(?i)@(everyone|channel|here|all)\b`)
)

// Neutral takes from text that may hold parts of a log line the power to call
// people or to hide where a link leads, in chat. It changes nothing else, so
// that the text can still be searched for.
func Neutral(s string) string {
	if strings.IndexByte(s, '<') >= 0 {
		s = chatMarkup.ReplaceAllString(s, "< $1")
	}
	if strings.IndexByte(s, '@') >= 0 {
		s = mention.ReplaceAllString(s, "@ $1")
	}
	return s
}

// NeutralLine is Neutral for a log line as it is: it also takes the meaning from
// Markdown's code and links.
func NeutralLine(s string) string {
	return strings.NewReplacer("`", "'", "](", "] (").Replace(Neutral(s))
}
