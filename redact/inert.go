package redact

import (
	"strings"

	"crowsnest/internal/lazyre"
	"crowsnest/internal/text"
	"crowsnest/redact/internal/clean"
)

var (
	// address matches the "://" of a URL and the host after it. Group 1 is the host.
	address = lazyre.New(`://([^\s/?#]*)`)
	// opener matches a scheme without a host, or a host without a scheme, from which programs would make a link.
	opener = lazyre.New(`(?i)(\b|_)(mailto|javascript|vbscript|tel|sms|xmpp|skype|callto|magnet)(:)|(www)(\.)`)
	// mailbox matches the @ of a mail address with the text around it.
	mailbox = lazyre.New(`(?i)([a-z0-9._%+-])@((?:[a-z0-9-]+\.)+[a-z]{2})`)
	// element matches the start of an HTML element. It also matches words in angle brackets that programs write, such
	// as <nil>, so that they can be kept.
	element = lazyre.New(`(?i)<(?:nil|none|unset|unknown|invalid|empty|redacted)>|<[a-z/?]`)
	// definition matches a link definition in Markdown, which turns every occurrence of its name into a link. Its
	// target need not have a scheme.
	definition = lazyre.New(`\]:(\s*<?[/\\])`)
	markdown   = strings.NewReplacer("`", "'", "](", "] (", "][", "] [", "&#", "& #")
	// chatMarkup matches the start of a mention or a link in Slack, such as <!channel>, <@U1>,
	// <#C1> or <https://x|text>.
	chatMarkup = lazyre.New(`(?i)<([!@#]|[a-z][a-z0-9+.-]*:)`)
	// mention matches a name that notifies everybody in chats that search plain text for names.
	mention = lazyre.New(`(?i)@(everyone|channel|here|all)\b`)
)

// DefuseLinks changes the text of a log line so that it cannot become a link, a mention or markup where it is shown. For
// example, https://host.tld becomes https[:]//host[.]tld, a@host.tld becomes a[@]host.tld, <br> becomes < br>, and a
// backtick becomes a single quote. A bare host.tld is kept. It cannot be distinguished from the name of a node, an
// image or an API group, and the target of such a link would be visible. Inert does not remove control characters;
// Sanitise does. Inert does not change its own result.
func DefuseLinks(s string) string {
	if !strings.ContainsAny(s, "`:.]<@&") {
		return s
	}
	s = DefuseMentions(markdown.Replace(s))
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
	for strings.Contains(s, "://") { // the host of one URL may end with the scheme of the next
		s = address.ReplaceAllStringFunc(s, func(m string) string {
			return "[:]//" + strings.ReplaceAll(m[len("://"):], ".", "[.]")
		})
	}
	if strings.IndexByte(s, '@') >= 0 {
		s = mailbox.ReplaceAllString(s, "$1[@]$2")
	}
	return opener.ReplaceAllString(s, "$1$2$4[$3$5]")
}

// DefuseText changes a text of several lines as Sanitise and DefuseLinks do. It keeps tabs and line breaks, and does not
// limit the length.
func DefuseText(s string) string { return DefuseLinks(clean.Text(s, true)) }

// DefuseMentions changes text so that it can neither mention people in a chat nor hide the target of a link. Other links
// are kept.
func DefuseMentions(s string) string {
	if strings.IndexByte(s, '<') >= 0 {
		s = chatMarkup.ReplaceAllString(s, "< $1")
	}
	if strings.IndexByte(s, '@') >= 0 {
		s = mention.ReplaceAllString(s, "@ $1")
	}
	return s
}

// maxSanitised is the maximum length of the result of Sanitise in bytes.
const maxSanitised = 16 << 10

// Sanitise makes text harmless for terminals, for chats, and for web pages that escape it. The result is one line of
// valid UTF-8 of at most 16 KiB. It has no control characters, ANSI sequences, bidirectional controls or invisible
// characters, and white space becomes spaces. The caller must escape markup, because Sanitise keeps it.
func Sanitise[T ~string](s T) T {
	return text.Truncate(T(clean.Text(string(s), false)), maxSanitised)
}
