package redact

import (
	"strings"
)

// input is the text to read. It knows where words, quotations and unquoted values end,
// and nothing about secrets.
type input struct {
	s       string
	steps   int // characters read by finders, besides the scan itself
	bracket int // position of the last ] that was searched for
}

// span is a part of the text to hide; it is empty if there is none.
type span struct{ from, to int }

func (p span) empty() bool { return p.from >= p.to }

func isSpace(c byte) bool    { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
func isBlank(c byte) bool    { return c == ' ' || c == '\t' }
func isDigit(c byte) bool    { return c >= '0' && c <= '9' }
func isUpper(c byte) bool    { return c >= 'A' && c <= 'Z' }
func isLower(c byte) bool    { return c >= 'a' && c <= 'z' }
func isLetter(c byte) bool   { return isUpper(c) || isLower(c) }
func isAlnum(c byte) bool    { return isLetter(c) || isDigit(c) }
func isQuote(c byte) bool    { return c == '"' || c == '\'' || c == '`' }
func isWordByte(c byte) bool { return isAlnum(c) || c == '_' || c == '-' }
func isDotted(c byte) bool   { return isWordByte(c) || c == '.' }
func isHex(c byte) bool      { return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

// Sets of characters.
const (
	digits   = "0123456789"
	lowers   = "abcdefghijklmnopqrstuvwxyz"
	capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

func isLowerWord(s string) bool { return strings.Trim(s, lowers) == "" }

// byteAt returns the byte at i, or 0 outside.
func (t *input) byteAt(i int) byte {
	if i < 0 || i >= len(t.s) {
		return 0
	}
	return t.s[i]
}

// of returns the text of a span.
func (t *input) of(p span) string { return t.s[p.from:p.to] }

// before returns up to n bytes before i.
func (t *input) before(i, n int) string { return t.s[max(0, i-n):i] }

// from returns up to n bytes from i on.
func (t *input) from(i, n int) string { return t.s[i:min(len(t.s), i+n)] }

// run returns the end of the bytes from i on that are in a set.
func (t *input) run(i int, in class) int { return t.runUpTo(i, len(t.s), in) }

// runUpTo is run over at most n bytes.
func (t *input) runUpTo(i, n int, in class) int {
	from := i
	for i < len(t.s) && i-from < n && in[t.s[i]] {
		i++
	}
	t.steps += i - from
	return i
}

// back returns the start of the at most n bytes before i that are in a set.
func (t *input) back(i, n int, in class) int {
	from := i
	for from > 0 && i-from < n && in[t.s[from-1]] {
		from--
	}
	return from
}

// runCoded is run, also over bytes of the set in the coding of URLs.
func (t *input) runCoded(i int, in class) int {
	for i = t.run(i, in); i+2 < len(t.s) && t.s[i] == '%' && isHex(t.s[i+1]) && isHex(t.s[i+2]); i = t.run(i+3, in) {
		if !in[unhex(t.s[i+1])<<4|unhex(t.s[i+2])] {
			break
		}
	}
	return i
}

// wordAt returns the letters from i on.
func (t *input) wordAt(i int) string { return t.s[i:t.run(i, letters)] }

// endsEscape reports whether the letter before i may belong to an escape.
func (t *input) endsEscape(i int) bool {
	return i >= 2 && (t.s[i-2] == '\\' || i >= 3 && t.s[i-3] == '%')
}

// afterWord reports whether the byte before i belongs to the same word. The letter of an
// escape such as \n, and the digits of %20, do not.
func (t *input) afterWord(i int) bool {
	s := t.s
	switch {
	case i == 0 || !isAlnum(s[i-1]) && s[i-1] != '_':
		return false
	case i >= 2 && s[i-2] == '\\' && strings.IndexByte("nrt", s[i-1]) >= 0:
		return false
	}
	return i < 3 || s[i-3] != '%'
}

// quoted returns the text between the quote at i, which n backslashes precede, and the
// quote that closes it, or everything to the end. The number of backslashes is that of
// the depth of quoting: none, 1, 3, 7.
func (t *input) quoted(i, n int) span {
	s, quote := t.s, t.s[i]
	run := 0
	for j := i + 1; j < len(s); j++ {
		t.steps++
		switch s[j] {
		case '\\':
			run++
			continue
		case quote:
			switch {
			case quote == '\'' && n == 0 && t.byteAt(j+1) == '\'' && j+1 > i+1: // '' in YAML
				j++
			case run <= n:
				return span{i + 1, j - run}
			case (run-n)%(2*(n+1)) == 0:
				return span{i + 1, j - n}
			}
		}
		run = 0
	}
	return span{i + 1, len(s)}
}

// openingQuote returns the position of the quote at i, after its n backslashes, or -1.
func (t *input) openingQuote(i int) (quote, n int) {
	for t.byteAt(i+n) == '\\' {
		n++
	}
	if !isQuote(t.byteAt(i + n)) {
		return -1, n
	}
	return i + n, n
}

// quotedAt returns the text of the quotes at i, if there are any.
func (t *input) quotedAt(i int) span {
	if quote, n := t.openingQuote(i); quote >= 0 {
		return t.quoted(quote, n)
	}
	return span{}
}

// word returns the word at i, or the text of the quotes there.
func (t *input) word(i int) span {
	if quote, n := t.openingQuote(i); quote >= 0 {
		return t.quoted(quote, n)
	}
	return t.unquoted(i)
}

// unquoted returns the value that begins at i, up to white space, the quote that ends
// the text, or a separator with another key after it, without closing brackets and
// punctuation at its end.
func (t *input) unquoted(i int) span {
	s, end := t.s, i
	for end < len(s) && !isSpace(s[end]) && !t.endsQuote(end) {
		c := s[end]
		if end > i && (c == ',' || c == ';' || c == '&') && t.isKeyAfter(end+1) {
			break
		}
		end++
		if (c == '=' || c == ':') && end > i+1 && isQuote(t.byteAt(end)) { // another key="value"
			end = min(len(s), t.quoted(end, 0).to+1)
		}
	}
	t.steps += end - i
	end = t.trimBackslashes(i, end)
	for end > i && t.isLoose(i, end-1) {
		end--
	}
	return span{i, end}
}

// endsQuote reports whether the byte at i is a quote that ends something: one within a
// password is followed by more of it.
func (t *input) endsQuote(i int) bool {
	if !isQuote(t.s[i]) {
		return false
	}
	if i > 0 && t.s[i-1] == '\\' || i+1 == len(t.s) {
		return true
	}
	next := t.s[i+1]
	return isSpace(next) || strings.IndexByte(",;:}])>\\|&", next) >= 0 || isQuote(next)
}

// isLoose reports whether the byte at the end of a value belongs to the text around:
// punctuation, or a closing bracket that the value did not open.
func (t *input) isLoose(from, at int) bool {
	switch t.s[at] {
	case ',', ';':
		return true
	case ')':
		return strings.IndexByte(t.s[from:at], '(') < 0
	case ']':
		return strings.IndexByte(t.s[from:at], '[') < 0
	case '}':
		return strings.IndexByte(t.s[from:at], '{') < 0
	}
	return false
}

// trimBackslashes leaves the backslashes before the quote at end to it.
func (t *input) trimBackslashes(from, end int) int {
	if end == len(t.s) || !isQuote(t.s[end]) {
		return end
	}
	return t.back(end, end-from, escapes)
}

// isKeyAfter reports whether a key and its separator are at i.
func (t *input) isKeyAfter(i int) bool {
	s, n := t.s, 0
	for i < len(s) && (s[i] == '\\' || s[i] == '"' || s[i] == ' ') && n < 8 {
		i++
		n++
	}
	start := i
	for i < len(s) && i-start < maxKey && (isKeyByte(s[i]) || s[i] == ' ' && i > start) {
		i++
	}
	for i < len(s) && (s[i] == '\\' || s[i] == '"') && n < 16 {
		i++
		n++
	}
	return i > start && i < len(s) && (s[i] == '=' || s[i] == ':')
}

// closingBracket returns the position of the first ] after i, or the end of the text. It
// is remembered, so that many open brackets cost one search.
func (t *input) closingBracket(i int) int {
	if i >= t.bracket {
		t.bracket = len(t.s)
		if n := strings.IndexByte(t.s[i:], ']'); n >= 0 {
			t.bracket = i + n
		}
	}
	return t.bracket
}

// rewriter copies a text with some parts replaced, from left to right.
type rewriter struct {
	s    string
	out  strings.Builder
	kept int // everything before is in out
}

func (w *rewriter) replace(p span, with string) {
	w.out.WriteString(w.s[w.kept:p.from])
	w.out.WriteString(with)
	w.kept = p.to
}

// String returns s itself if nothing was replaced.
func (w *rewriter) String() string {
	if w.kept == 0 {
		return w.s
	}
	w.out.WriteString(w.s[w.kept:])
	return w.out.String()
}
