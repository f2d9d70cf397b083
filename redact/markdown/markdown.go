// Package markdown writes texts that outsiders can influence, such as log lines, into Markdown, so that they do not act
// as markup.
package markdown

import (
	"strings"

	"crowsnest/internal/lazyre"
	"crowsnest/redact"
)

var (
	// plainWord matches a word without characters that Markdown, HTML, GitHub or GitLab interpret as markup, a mention,
	// a reference, an emoji or a formula.
	plainWord = lazyre.New(`^[\pL\pN\pM,;/.:=()'"?%+!{}_…–—’“”-]+$`)
	// markup matches text that has a special meaning although plainWord accepts its characters, such as emphasis,
	// addresses and emojis.
	markup = lazyre.New(`(?i)(?:^|[^\pL\pN])_|_(?:[^\pL\pN]|$)|//|www\.|(?:mailto|xmpp):|:[\w+-]*[a-z][\w+-]*:`)
	// opening matches the start of a list, a heading or a horizontal rule at the start of a line.
	opening = lazyre.New(`^(?:[-+=]+$|[-+=]|[0-9]+[.)])`)
)

// EscapeLine returns text as one line without markup of Markdown or HTML, and without mentions or links on GitHub. Words
// that could act as markup become inline code, so the text reads the same in a terminal. The result must not be put
// inside an HTML element, where Markdown has no inline code.
func EscapeLine(s string) string {
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
			bare = w // the last character would end a character reference
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

func word(b *strings.Builder, w string) {
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	b.WriteString(w)
}

// inline returns text as inline code. The fence is longer than any run of backticks in the text. A | stays outside of
// the code, because it would end the cell of a table.
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

// Block returns a fenced code block with the lines of block, which must end with a newline. The lines are sanitised.
// The fence is longer than any run of backticks in them.
func Block(block string) string {
	fence := strings.Repeat("`", max(3, longestRun(block, '`')+1))
	return fence + "\n" + block + fence + "\n"
}

func longestRun(s string, char byte) int {
	longest, run := 0, 0
	for i := range len(s) {
		if s[i] != char {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}
