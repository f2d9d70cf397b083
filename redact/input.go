package redact

import (
	"strings"
)

// input is the text that is scanned. Its methods find the ends of words, quotations and unquoted values. They know
// nothing about secrets.
type input struct {
	s       string
	steps   int // number of bytes that finders have read, in addition to the scan itself
	bracket int // position of the last ] that closingBracket found
}

// span is a section of the text that is to be hidden. An empty span means that there is none.
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
func isKeyByte(c byte) bool  { return isWordByte(c) || c == '.' }
func isHex(c byte) bool      { return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

// Sets of bytes.
const (
	digits   = "0123456789"
	lowers   = "abcdefghijklmnopqrstuvwxyz"
	capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

func isLowerWord(s string) bool { return strings.Trim(s, lowers) == "" }

// byteAt returns the byte at i, or 0 if i is outside the text.
func (t *input) byteAt(i int) byte {
	if i < 0 || i >= len(t.s) {
		return 0
	}
	return t.s[i]
}

func (t *input) textOf(p span) string { return t.s[p.from:p.to] }

// textBefore returns at most n bytes that end before i.
func (t *input) textBefore(i, n int) string { return t.s[max(0, i-n):i] }

// textFrom returns at most n bytes that start at i.
func (t *input) textFrom(i, n int) string { return t.s[i:min(len(t.s), i+n)] }

// run returns the end of the longest run of bytes in a set that starts at i.
func (t *input) run(i int, in class) int { return t.runUpTo(i, len(t.s), in) }

// runUpTo returns the end of the run of bytes in a set that starts at i and has at most n bytes.
func (t *input) runUpTo(i, n int, in class) int {
	from := i
	for i < len(t.s) && i-from < n && in[t.s[i]] {
		i++
	}
	t.steps += i - from
	return i
}

// runStart returns the start of the run of bytes in a set that ends before i and has at most n bytes.
func (t *input) runStart(i, n int, in class) int {
	from := i
	for from > 0 && i-from < n && in[t.s[from-1]] {
		from--
	}
	return from
}

// runCoded returns the end of the run of bytes in a set that starts at i. The bytes may be percent-encoded.
func (t *input) runCoded(i int, in class) int {
	for i = t.run(i, in); i+2 < len(t.s) && t.s[i] == '%' && isHex(t.s[i+1]) && isHex(t.s[i+2]); i = t.run(i+3, in) {
		if !in[unhex(t.s[i+1])<<4|unhex(t.s[i+2])] {
			break
		}
	}
	return i
}

// wordAt returns the run of letters that starts at i.
func (t *input) wordAt(i int) string { return t.s[i:t.run(i, letters)] }

// afterWord reports whether the byte before i belongs to the same word as the byte at i. The letter of an escape such
// as \n and the digits of %20 belong to no word.
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

// quoted returns the text between the quote at i and the closing quote. If there is no closing quote, it returns the
// rest of the text. n is the number of backslashes before the quote, which is 0, 1, 3 or 7, depending on the depth of
// quoting.
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
			case quote == '\'' && n == 0 && t.byteAt(j+1) == '\'' && j+1 > i+1: // '' is a quote inside a YAML string
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

// openingQuote returns the position of a quote that follows any number of backslashes at i, and that number n. The
// position is -1 if there is no quote.
func (t *input) openingQuote(i int) (quote, n int) {
	for t.byteAt(i+n) == '\\' {
		n++
	}
	if !isQuote(t.byteAt(i + n)) {
		return -1, n
	}
	return i + n, n
}

func (t *input) quotedAt(i int) span {
	if quote, n := t.openingQuote(i); quote >= 0 {
		return t.quoted(quote, n)
	}
	return span{}
}

// word returns the text in the quotes at i. If there are no quotes, it returns the unquoted value at i.
func (t *input) word(i int) span {
	if quote, n := t.openingQuote(i); quote >= 0 {
		return t.quoted(quote, n)
	}
	return t.unquoted(i)
}

// unquoted returns the unquoted value that begins at i. The value ends at white space, at the quote that ends the
// surrounding text, or at a separator before another key. Closing brackets and punctuation at its end are omitted.
func (t *input) unquoted(i int) span {
	s, end := t.s, i
	for end < len(s) {
		c := s[end]
		if plainBytes[c] {
			end++
			continue
		}
		if isSpace(c) || t.endsQuote(end) {
			break
		}
		if end > i && (c == ',' || c == ';' || c == '&') && t.isKeyAfter(end+1) {
			break
		}
		end++
		if (c == '=' || c == ':') && end > i+1 && isQuote(t.byteAt(end)) { // another key follows, as in key="value"
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

// endsQuote reports whether the byte at i is a quote that ends a quotation. A quote inside a password is followed by
// more of the password.
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

// isLoose reports whether the byte before i belongs to the surrounding text instead of the value that starts at from.
// Punctuation belongs to the surrounding text, and so does a closing bracket that the value did not open.
func (t *input) isLoose(from, i int) bool {
	switch t.s[i] {
	case ',', ';':
		return true
	case ')':
		return strings.IndexByte(t.s[from:i], '(') < 0
	case ']':
		return strings.IndexByte(t.s[from:i], '[') < 0
	case '}':
		return strings.IndexByte(t.s[from:i], '{') < 0
	}
	return false
}

// trimBackslashes returns the end of a value without the backslashes that precede the quote at end.
func (t *input) trimBackslashes(from, end int) int {
	if end == len(t.s) || !isQuote(t.s[end]) {
		return end
	}
	return t.runStart(end, end-from, escapes)
}

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

// closingBracket returns the position of the first ] after i, or the end of the text. It remembers the position, so
// that many opening brackets require only one search.
func (t *input) closingBracket(i int) int {
	if i >= t.bracket {
		t.bracket = len(t.s)
		if n := strings.IndexByte(t.s[i:], ']'); n >= 0 {
			t.bracket = i + n
		}
	}
	return t.bracket
}

// rewriter copies a text from left to right and replaces some sections.
type rewriter struct {
	s      string
	out    strings.Builder
	copied int // offset in s up to which the text has been copied or replaced
}

func (w *rewriter) replace(p span, replacement string) {
	w.out.WriteString(w.s[w.copied:p.from])
	w.out.WriteString(replacement)
	w.copied = p.to
}

// String returns the rewritten text, which is s itself if nothing was replaced.
func (w *rewriter) String() string {
	if w.copied == 0 {
		return w.s
	}
	w.out.WriteString(w.s[w.copied:])
	return w.out.String()
}

// class is a set of bytes.
type class *[256]bool

// newClass returns the class of the bytes in a list, in which a-z is a range.
func newClass(list string) class {
	set := [256]bool{}
	for i := 0; i < len(list); i++ {
		first, last := int(list[i]), int(list[i])
		if i+2 < len(list) && list[i+1] == '-' {
			last = int(list[i+2])
			i += 2
		}
		for c := first; c <= last; c++ {
			set[c] = true
		}
	}
	return &set
}

// classWithout returns the class of all bytes that are not in the list.
func classWithout(list string) class {
	set := *newClass(list)
	for c := range set {
		set[c] = !set[c]
	}
	return &set
}

var (
	blanks, escapes, dashes, dots, digitSet             = newClass(" \t"), newClass(`\`), newClass("-"), newClass("."), newClass("0-9")
	letters, alnums, wordBytes, keyBytes                = newClass("A-Za-z"), newClass("0-9A-Za-z"), newClass("0-9A-Za-z_-"), newClass("0-9A-Za-z_.-")
	upperLetters, lowerLetters, notLetters              = newClass("A-Z"), newClass("a-z"), classWithout(lowers + capitals)
	glueBytes, hostBytes, seedBytes, tagBytes           = newClass("A-Za-z_"), newClass("0-9A-Za-z.-"), newClass("a-z +"), newClass("0-9A-Za-z_.:-")
	spacesAndCommas, digitsAndBlanks                    = newClass(" \t\n\r,"), newClass("0-9 \t")
	quotesAndEscapes, unquotedBytes, urlBytes, userInfo = newClass("\"'`\\"), classWithout(" \t\n\r\"'`"), classWithout(" \t\n\r\"<>\\`"), classWithout(" \t\n\r\"'`<>,;()[]{}|=/\\")
	pathBytes, labelBytes, objectBytes                  = newClass("0-9A-Za-z_./~-"), newClass("0-9a-z-"), newClass("0-9a-z.-")
	randomBytes, afterWords                             = newClass("0-9A-Za-z+/_-"), newClass(" \t\"'`\\:=([{,")
	plainBytes                                          = classWithout(" \t\n\r\"'`,;&=:")
	graphicBytes                                        = newClass("!#-&(-_a-~") // printable bytes except quotes
)
