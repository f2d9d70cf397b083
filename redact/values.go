package redact

import (
	"strings"

	"crowsnest/redact/internal/keys"
)

// keyValue looks for a secret around a separator, which is at s[i:next].
func (sc *scanner) keyValue(i, next int) span {
	s := sc.s
	if !sc.mayBeKey(i) {
		return span{}
	}
	k := sc.keyBefore(i)
	if k.class == keys.None {
		return span{}
	}
	sep := s[i]
	if next < len(s) && (sep == ':' && s[next] == '=' || sep == '=' && s[next] == '>') {
		next++ // := and =>
	}
	if sep == '=' && k.class != keys.Strong && sc.isComparison(i) {
		return span{}
	}
	q := next
	for q < len(s) && isBlank(s[q]) {
		q++
	}
	v := value{key: k, sep: sep, at: q, spaced: q > next}
	if q == len(s) || sc.refuses(v) {
		return span{}
	}
	return sc.value(v)
}

// isComparison reports whether the = at i is part of ==, != or the like.
func (sc *scanner) isComparison(i int) bool {
	return strings.IndexByte("=!<>", sc.byteAt(i-1)) >= 0 && i > 0 || sc.byteAt(i+1) == '='
}

// value is where the value of a key begins.
type value struct {
	key    key
	sep    byte
	at     int
	spaced bool // white space after the separator
}

// refuses reports whether the text around a key shows that it has no secret value.
func (sc *scanner) refuses(v value) bool {
	before := sc.byteAt(v.key.from - 1)
	switch v.key.class {
	case keys.Weak, keys.Strong: // an image, path/my-token:v1.2.3
		return v.sep == ':' && (isGenerated(sc.s[v.key.from:v.key.to]) || !v.spaced && !v.key.quoted && before == '/' && isVersion(sc.s[v.at:min(len(sc.s), v.at+16)]))
	case keys.Login:
		return v.sep != '='
	case keys.Query:
		return v.key.spaced || v.spaced || before != '?' && before != '&' && !isQuery(sc.s[v.key.from:v.key.to], v.sep)
	}
	return false
}

// isGenerated reports whether a name ends with five letters and digits that
// Kubernetes drew, such as md-0-s7fpw: no vowels, no 0, 1 and 3.
func isGenerated(name string) bool {
	cut := len(name) - 6
	return cut > 0 && name[cut] == '-' && strings.Trim(name[cut+1:], "bcdfghjklmnpqrstvwxz2456789") == ""
}

// isQuery reports whether a weak name such as sig counts outside of a URL: key
// does not, since controllers log key="namespace/name".
func isQuery(name string, sep byte) bool { return sep == '=' && !strings.EqualFold(name, "key") }

var version = lazily(`^v?[0-9]+\.[0-9]`)

func isVersion(s string) bool { return version().MatchString(s) }

// value returns the part of the text that is the secret value of a key.
func (sc *scanner) value(v value) span {
	s := sc.s
	at := v.at
	escapes := 0
	for at < len(s) && s[at] == '\\' {
		at++
		escapes++
	}
	switch {
	case at == len(s):
		return span{}
	case isQuote(s[at]):
		return sc.exempt(v, sc.quoted(at, escapes))
	case escapes > 0:
		at = v.at
	}
	if open, n := sc.wraps(at); open > 0 {
		return sc.exempt(v, sc.quoted(open, n))
	}
	switch s[at] {
	case '[':
		return sc.list(v, at)
	case '{', '&':
		if v.key.class != keys.Strong || sc.isStruct(at) {
			return span{}
		}
	case '|', '>':
		if v.sep == ':' && yamlBlock().MatchString(s[at:min(len(s), at+16)]) {
			return span{at, len(s)}
		}
	case ',', '}', ')':
		return span{} // key: , has no value
	case '\n', '\r':
		return sc.yamlList(v, at)
	case '\\':
		if p := sc.yamlList(v, at); !p.empty() {
			return p
		}
	}
	if strings.HasPrefix(s[at:], "map[") {
		return span{}
	}
	if v.key.class == keys.Header {
		return sc.header(v, at)
	}
	p := sc.unquoted(at)
	if isPhrase(s[v.key.from:v.key.to]) {
		p = sc.phraseAt(at)
	}
	if v.spaced && sc.isProse(v, p) {
		return span{}
	}
	return sc.exempt(v, p)
}

// yamlBlock is | or > at the end of a line, whose end may be escaped.
var yamlBlock = lazily(`^[|>][-+0-9]{0,3} *(?:\\*\\[nr]|\n|\r)`)

// isStruct reports whether { or & at i opens an object whose fields are looked at
// on their own.
func (sc *scanner) isStruct(i int) bool {
	rest := strings.TrimLeft(sc.s[i+1:min(len(sc.s), i+1+keys.Max)], "{ \t\\\n")
	if rest == "" || rest[0] == '}' || rest[0] == '"' {
		return true
	}
	n := 0
	for n < len(rest) && isKeyByte(rest[n]) {
		n++
	}
	return n > 0 && n < len(rest) && (rest[n] == ':' || rest[n] == '{')
}

// quoted returns the text between the quote at i, which n backslashes precede,
// and the quote that closes it, or everything to the end. The number of
// backslashes is that of the depth of quoting: none, 1, 3, 7.
func (sc *scanner) quoted(i, n int) span {
	s, quote := sc.s, sc.s[i]
	run := 0
	for j := i + 1; j < len(s); j++ {
		sc.steps++
		switch s[j] {
		case '\\':
			run++
			continue
		case quote:
			switch {
			case quote == '\'' && n == 0 && sc.byteAt(j+1) == '\'' && j+1 > i+1: // '' in YAML
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

// list is the value that [ at i opens: as Go prints slices and headers, or JSON.
func (sc *scanner) list(v value, i int) span {
	s := sc.s
	for _, slice := range [...]string{"[]uint8{", "[]byte{", "[]byte(", "[]uint8("} {
		if strings.HasPrefix(s[i:], slice) {
			return sc.bytes(i + len(slice))
		}
	}
	end := sc.closingBracket(i)
	p := span{i + 1, end}
	inner := strings.TrimLeft(s[p.from:p.to], " \t\n")
	if inner == "" || strings.HasPrefix(inner, "{") {
		return span{}
	}
	if v.key.class == keys.Weak || v.key.class == keys.Auth {
		word, _, more := strings.Cut(inner, " ")
		if more && sc.r.isWord(word) {
			return span{}
		}
	}
	if after := sc.byteAt(end + 1); isAlnum(after) || after != 0 && strings.IndexByte("!@#$%^&*+/_~", after) >= 0 {
		return sc.unquoted(i) // a value that begins with a bracket
	}
	return sc.exempt(v, p)
}

// closingBracket returns the place of the first ] after i, or the end of the
// text. It is remembered, so that many open brackets cost one search.
func (sc *scanner) closingBracket(i int) int {
	if i >= sc.bracket {
		sc.bracket = len(sc.s)
		if n := strings.IndexByte(sc.s[i:], ']'); n >= 0 {
			sc.bracket = i + n
		}
	}
	return sc.bracket
}

// header returns the value of an unquoted header: the rest of the line, up to the quote
// that ends the text around it. In key=value it is one word, or everything after a
// scheme.
func (sc *scanner) header(v value, i int) span {
	s := sc.s
	word := sc.unquoted(i)
	first := strings.TrimRight(s[word.from:word.to], ":")
	if !isScheme(first) && sc.r.isWord(first) && isBlank(sc.byteAt(word.to)) {
		return span{}
	}
	if v.sep != ':' && !isScheme(first) {
		return sc.exempt(v, word)
	}
	end := i
	for end < len(s) && s[end] != '\n' && s[end] != '\r' && (!sc.endsQuote(end) || sc.isParameter(first, end)) {
		end++
	}
	return sc.exempt(v, span{i, sc.trimBackslashes(i, end)})
}

// isParameter reports whether the quote at i belongs to the parameters of a
// scheme, or to a cookie, rather than to the text around the header.
func (sc *scanner) isParameter(scheme string, i int) bool {
	return sc.byteAt(i+1) == ';' || strings.EqualFold(scheme, "Digest") || strings.EqualFold(scheme, "OAuth") || strings.EqualFold(scheme, "Hawk")
}

// endsQuote reports whether the byte at i is a quote that ends something: one
// within a password is followed by more of it.
func (sc *scanner) endsQuote(i int) bool {
	if !isQuote(sc.s[i]) {
		return false
	}
	if i > 0 && sc.s[i-1] == '\\' || i+1 == len(sc.s) {
		return true
	}
	next := sc.s[i+1]
	return isSpace(next) || strings.IndexByte(",;:}])>\\|&", next) >= 0 || isQuote(next)
}

// unquoted returns the value that begins at i, up to white space, the quote
// that ends the text, or a separator with another key after it. Closing
// brackets and punctuation at its end are left.
func (sc *scanner) unquoted(i int) span {
	s, end := sc.s, i
	for end < len(s) && !isSpace(s[end]) && !sc.endsQuote(end) {
		c := s[end]
		if end > i && (c == ',' || c == ';' || c == '&') && sc.isKeyAfter(end+1) {
			break
		}
		end++
		if (c == '=' || c == ':') && end > i+1 && isQuote(sc.byteAt(end)) { // another key="value"
			end = min(len(s), sc.quoted(end, 0).to+1)
		}
	}
	sc.steps += end - i
	end = sc.trimBackslashes(i, end)
	for end > i && sc.isLoose(i, end-1) {
		end--
	}
	return span{i, end}
}

// isLoose reports whether the byte at the end of a value belongs to the text
// around: punctuation, or a closing bracket that the value did not open.
func (sc *scanner) isLoose(from, at int) bool {
	switch sc.s[at] {
	case ',', ';':
		return true
	case ')':
		return strings.IndexByte(sc.s[from:at], '(') < 0
	case ']':
		return strings.IndexByte(sc.s[from:at], '[') < 0
	case '}':
		return strings.IndexByte(sc.s[from:at], '{') < 0
	}
	return false
}

// trimBackslashes leaves the backslashes before the quote at end to it.
func (sc *scanner) trimBackslashes(from, end int) int {
	if end == len(sc.s) || !isQuote(sc.s[end]) {
		return end
	}
	for end > from && sc.s[end-1] == '\\' {
		end--
	}
	return end
}

// isKeyAfter reports whether a key and its separator are at i.
func (sc *scanner) isKeyAfter(i int) bool {
	s, n := sc.s, 0
	for i < len(s) && (s[i] == '\\' || s[i] == '"' || s[i] == ' ') && n < 8 {
		i++
		n++
	}
	start := i
	for i < len(s) && i-start < keys.Max && (isKeyByte(s[i]) || s[i] == ' ' && i > start) {
		i++
	}
	for i < len(s) && (s[i] == '\\' || s[i] == '"') && n < 16 {
		i++
		n++
	}
	return i > start && i < len(s) && (s[i] == '=' || s[i] == ':')
}

// bytes returns the content of a slice of bytes as Go prints it, whose brace or bracket
// is before i.
func (sc *scanner) bytes(i int) span {
	n := strings.IndexAny(sc.s[i:min(len(sc.s), i+8*maxKnown)], "})")
	if n < 0 {
		return span{i, len(sc.s)}
	}
	return span{i, i + n}
}

// yamlList finds the items below a key, as in "passwords:\n- x". The line end is at
// i, and may be escaped.
func (sc *scanner) yamlList(v value, i int) span {
	s := sc.s
	at := i
	for at < len(s) && at-i < 32 && (isSpace(s[at]) || s[at] == '\\' || s[at] == 'n' && s[at-1] == '\\') {
		at++
	}
	if v.sep != ':' || at+2 >= len(s) || s[at] != '-' || s[at+1] != ' ' {
		return span{}
	}
	p := sc.unquoted(at + 2)
	if cut := strings.IndexAny(s[p.from:p.to], ":\\"); cut >= 0 {
		if s[p.from+cut] == ':' {
			return span{}
		}
		p.to = p.from + cut
	}
	return p
}
