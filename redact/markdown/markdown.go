// Package markdown writes texts that strangers can influence, such as log lines, into
// Markdown without letting them act as markup.
package markdown

import (
	"html"
	"slices"
	"strings"

	"crowsnest/internal/lazyre"
	"crowsnest/redact"
)

var (
	// plainWord has no character that Markdown, HTML, or GitHub and GitLab in a text read as
	// markup, a mention, a reference, an emoji or a formula.
	plainWord = lazyre.New(`^[\pL\pN\pM,;/.:=()'"?%+!{}_…–—’“”-]+$`)
	// markup is what is made of those characters all the same: emphasis, addresses and emojis.
	markup = lazyre.New(`(?i)(?:^|[^\pL\pN])_|_(?:[^\pL\pN]|$)|//|www\.|(?:mailto|xmpp):|:[\w+-]*[a-z][\w+-]*:`)
	// opening begins a list, a heading or a rule at the start of a line.
	opening = lazyre.New(`^(?:[-+=]+$|[-+=]|[0-9]+[.)])`)
)

// Inert returns text as one line that contains no markup of Markdown or HTML, and no mention
// or link for GitHub. It reads the same in a terminal: words that could act as markup become
// inline code. Inside an HTML element, where Markdown has no code, use Element.
func Inert(s string) string {
	var b strings.Builder
	var code []string
	flush := func() {
		if len(code) > 0 {
			word(&b, inline(strings.Join(code, " ")))
			code = code[:0]
		}
	}
	for _, w := range strings.Fields(redact.Sanitise(s)) {
		if plainWord.MatchString(w) && !markup.MatchString(w) && (b.Len() > 0 || len(code) > 0 || !opening.MatchString(w)) {
			flush()
			word(&b, w)
			continue
		}
		bare := strings.TrimRight(w, ",;.:")
		if bare == "" || strings.ContainsAny(w, "|&") {
			bare = w // the end of a character reference belongs to it
		}
		code = append(code, bare)
		if bare != w {
			flush()
			b.WriteString(w[len(bare):])
		}
	}
	flush()
	return b.String()
}

// Element is Inert for the content of an HTML element.
func Element(s string) string {
	words := strings.Fields(redact.Sanitise(s))
	text := strings.Join(words, " ")
	if slices.ContainsFunc(words, func(w string) bool { return !plainWord.MatchString(w) || markup.MatchString(w) }) {
		return "<code>" + html.EscapeString(text) + "</code>"
	}
	return text
}

// Text returns what stands outside of inline code in a line of Markdown that Inert wrote, for
// tests of what is written with it.
func Text(line string) string {
	var b strings.Builder
	for line != "" {
		at := strings.IndexByte(line, '`')
		if at < 0 {
			break
		}
		b.WriteString(line[:at])
		rest := strings.TrimLeft(line[at:], "`")
		run := len(line[at:]) - len(rest)
		end := 0
		for end < len(rest) {
			n := len(rest[end:]) - len(strings.TrimLeft(rest[end:], "`"))
			if n == run {
				break
			}
			end += max(n, 1)
		}
		if end >= len(rest) { // an open mark is text
			b.WriteString(line[at : at+run])
			line = rest
			continue
		}
		line = rest[end+run:]
	}
	b.WriteString(line)
	return b.String()
}

// word appends a word to a text.
func word(b *strings.Builder, w string) {
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	b.WriteString(w)
}

// inline returns text as inline code, with a fence that is longer than any run of backticks in
// it. A bar, which would end the cell of a table, is outside.
func inline(text string) string {
	var b strings.Builder
	for i, part := range strings.Split(text, "|") {
		if i > 0 {
			b.WriteString(`\|`)
		}
		if part == "" {
			continue
		}
		fence := strings.Repeat("`", longestRun(part, '`')+1)
		if strings.Trim(part, " `") != part {
			part = " " + part + " "
		}
		b.WriteString(fence + part + fence)
	}
	return b.String()
}

// Block returns a fenced block of a language, which may be "". block ends with a newline,
// and its lines are sanitised. The fence is longer than any run of backticks in it.
func Block(language, block string) string {
	fence := strings.Repeat("`", max(3, longestRun(block, '`')+1))
	return fence + language + "\n" + block + fence + "\n"
}

func longestRun(s string, of byte) int {
	longest, run := 0, 0
	for i := range len(s) {
		if s[i] != of {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}
