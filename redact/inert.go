package redact

import (
	"slices"
	"strings"
	"unicode/utf8"

	"crowsnest/internal/lazyre"
)

var (
	// address is what follows the scheme of a URL: its host is group 1.
	address = lazyre.New(`://([^\s/?#]*)`)
	// opener is a scheme without a host, or a host without a scheme, that
	// programs turn into a link.
	opener  = lazyre.New(`(?i)(\b|_)(` + strings.Join(schemes, "|") + `)(:)|(www)(\.)`)
	schemes = []string{"mailto", "javascript", "vbscript", "tel", "sms", "xmpp", "skype", "callto", "magnet"}
	// mailbox is the @ of a mail address, with the text around it.
	mailbox = lazyre.New(`(?i)([a-z0-9._%+-])@((?:[a-z0-9-]+\.)+[a-z]{2})`)
	// element starts an HTML element, or is a word in angle brackets that programs
	// write, such as <nil>.
	element = lazyre.New(`(?i)<(?:nil|none|unset|unknown|invalid|empty|redacted)>|<[a-z/?]`)
	// definition makes a link of every mention of a name in Markdown; the link may
	// be without a scheme.
	definition = lazyre.New(`\]:(\s*<?[/\\])`)
	markdown   = strings.NewReplacer("`", "'", "](", "] (", "][", "] [", "&#", "& #")
	// chatMarkup starts a mention or a link in Slack: <!channel>, <@U1>, <#C1>,
	// <https://x|text>.
	chatMarkup = lazyre.New(`(?i)<([!@#]|[a-z][a-z0-9+.-]*:)`)
	// mention notifies everybody in chats that search plain text for names.
	mention = lazyre.New(`(?i)@(everyone|channel|here|all)\b`)
)

// Inert changes text of a log line so that it cannot become a link, a mention or markup
// where it is shown: https://host.tld becomes https[:]//host[.]tld,
// a@host.tld becomes a[@]host.tld, <br> becomes < br>, a backtick a single quote.
// A bare host.tld stays: it cannot be distinguished from the name of a node, an
// image or an API group, and it shows where it leads. Inert does not remove control
// characters; Sanitise does. Applied to its own result it changes nothing.
func Inert(s string) string {
	if !strings.ContainsAny(s, "`:.]<@&") {
		return s
	}
	s = Unmentioned(markdown.Replace(s))
	if strings.IndexByte(s, '<') >= 0 {
		s = element.ReplaceAllStringFunc(s, func(m string) string {
			if strings.HasSuffix(m, ">") {
				return m
			}
			return "< " + m[1:]
		})
	}
	if strings.Contains(s, "]:") {
		s = definition.ReplaceAllString(s, "] :$1")
	}
	for strings.Contains(s, "://") { // the host of one may end with the scheme of the next
		s = address.ReplaceAllStringFunc(s, func(m string) string {
			return "[:]//" + strings.ReplaceAll(m[len("://"):], ".", "[.]")
		})
	}
	if strings.IndexByte(s, '@') >= 0 {
		s = mailbox.ReplaceAllString(s, "$1[@]$2")
	}
	if mayOpen(s) {
		s = opener.ReplaceAllString(s, "$1$2$4[$3$5]")
	}
	return s
}

// mayOpen reports whether opener can match. That is rare, and the expression is slow.
func mayOpen(s string) bool {
	for i := 3; i < len(s); i++ {
		switch s[i] {
		case ':':
			word := s[max(0, i-len("javascript")):i]
			// Letters such as the long s fold to ASCII.
			if strings.ContainsFunc(word, func(r rune) bool { return r >= utf8.RuneSelf }) || slices.ContainsFunc(schemes, func(x string) bool {
				return len(word) >= len(x) && strings.EqualFold(word[len(word)-len(x):], x)
			}) {
				return true
			}
		case '.':
			if strings.EqualFold(s[i-3:i], "www") {
				return true
			}
		}
	}
	return false
}

// Unmentioned changes text so that it cannot mention people in chat, or hide the target
// of a link. Other links stay.
func Unmentioned(s string) string {
	if strings.IndexByte(s, '<') >= 0 {
		s = chatMarkup.ReplaceAllString(s, "< $1")
	}
	if strings.IndexByte(s, '@') >= 0 {
		s = mention.ReplaceAllString(s, "@ $1")
	}
	return s
}
