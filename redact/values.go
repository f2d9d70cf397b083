package redact

import (
	"strings"
)

// valueReader reads the values of keys and decides which of them are secrets.
type valueReader struct{ keyReader }

// value describes the position at which the value of a key begins.
type value struct {
	key    key
	sep    byte
	at     int
	spaced bool // whether white space follows the separator
}

// keyValue looks for a secret as the value of the key before the separator s[i:next].
func (t *valueReader) keyValue(i, next int) span {
	s := t.s
	if !t.table.mayEnd(t.textBefore(i, 2*maxSpaces)) {
		return span{}
	}
	k := t.keyBefore(i)
	if k.class == noKey {
		return span{}
	}
	sep := s[i]
	if next < len(s) && (sep == ':' && s[next] == '=' || sep == '=' && s[next] == '>') {
		next++ // the separator is := or =>
	}
	if sep == '=' && k.class != strongKey && (i > 0 && strings.IndexByte("=!<>", s[i-1]) >= 0 || t.byteAt(i+1) == '=') { // the separator is a comparison
		return span{}
	}
	at := t.run(next, blanks)
	v := value{key: k, sep: sep, at: at, spaced: at > next}
	if at == len(s) || t.refuses(v) {
		return span{}
	}
	return t.value(v)
}

var version = lazyRegexp(`^v?[0-9]+\.[0-9]`)

func (t *valueReader) refuses(v value) bool {
	before := t.byteAt(v.key.from - 1)
	switch v.key.class {
	case weakKey, strongKey: // a version such as path/my-token:v1.2.3, or the result of a Go test such as --- PASS: TestX
		return v.sep == ':' && (t.textBefore(v.key.from, 4) == "--- " && t.name(v.key) == "PASS" || isGenerated(t.name(v.key)) || !v.spaced && !v.key.quoted && before == '/' && version().MatchString(t.textFrom(v.at, 16)))
	case loginKey:
		return v.sep != '='
	case queryKey:
		return v.key.spaced || v.spaced || before != '?' && before != '&' && !isQuery(t.name(v.key), v.sep)
	}
	return false
}

// isGenerated reports whether a name ends with five random letters and digits from Kubernetes, such as md-0-s7fpw.
// Kubernetes uses no vowels and no 0, 1 or 3.
func isGenerated(name string) bool {
	cut := len(name) - 6
	return cut > 0 && name[cut] == '-' && strings.Trim(name[cut+1:], "bcdfghjklmnpqrstvwxz2456789") == ""
}

// isQuery reports whether a key of the class queryKey, such as sig, also counts outside a URL. The name "key" does not,
// because controllers log key="namespace/name".
func isQuery(name string, sep byte) bool { return sep == '=' && !strings.EqualFold(name, "key") }

// yamlBlock matches a | or > at the end of a line. The line end may be escaped.
var yamlBlock = lazyRegexp(`^[|>][-+0-9]{0,3} *(?:\\*\\[nr]|\n|\r)`)

// value returns the section of the text that is the secret value of a key.
func (t *valueReader) value(v value) span {
	if next := t.afterTags(v.at); next > v.at {
		v.at, v.spaced = next, true
	}
	s, at := t.s, v.at
	switch quote, n := t.openingQuote(at); {
	case quote >= 0:
		return t.exempt(v, t.quoted(quote, n))
	case at+n == len(s):
		return span{}
	}
	if quote, n := t.wraps(at); quote > 0 {
		return t.exempt(v, t.quoted(quote, n))
	}
	switch s[at] {
	case '[':
		return t.list(v, at)
	case '{', '&':
		if t.isStruct(at) {
			return span{}
		}
	case '|', '>':
		if v.sep == ':' && yamlBlock().MatchString(t.textFrom(at, 16)) {
			return span{at, len(s)}
		}
	case ',', '}', ')':
		return span{} // a comma follows the key, so the key has no value
	case '\n', '\r':
		return t.yamlList(at)
	case '\\':
		if p := t.yamlList(at); !p.empty() {
			return p
		}
	}
	if strings.HasPrefix(s[at:], "map[") {
		return span{}
	}
	if v.key.class == headerKey {
		return t.header(v, at)
	}
	p := t.unquoted(at)
	if name := t.name(v.key); strings.HasSuffix(name, "mnemonic") || strings.HasSuffix(name, "phrase") && strings.HasPrefix(name, "seed") { // the value is a passphrase of several lower-case words
		p = span{at, t.run(at, seedBytes)}
	}
	if v.spaced && t.isProse(v, p) || linePlace().MatchString(s[p.from:p.to]) {
		return span{}
	}
	return t.exempt(v, p)
}

var yamlTags = lazyRegexp(`^(?:[!&][A-Za-z0-9_!-]{1,24}[ \t]){0,2}`)

// afterTags skips a tag and an anchor of YAML, as in !!str &a x.
func (t *valueReader) afterTags(i int) int {
	if c := t.s[i]; c != '!' && c != '&' {
		return i
	}
	return i + len(yamlTags().FindString(t.textFrom(i, 64)))
}

// wraps finds the quote of a value that is printed with its type, as in Some("x") or (*string)(0xc000)("x"). It returns
// the position of the quote, or 0 if there is none, and the number of backslashes before it.
func (t *valueReader) wraps(i int) (quote, escapes int) {
	at := i
	for at < len(t.s) && at-i < 48 && (isAlnum(t.s[at]) || strings.IndexByte("_.*()=", t.s[at]) >= 0 || t.s[at] == ' ' && t.s[at-1] == ')') {
		at++
	}
	if at == i || t.s[at-1] != '(' && t.s[at-1] != ' ' {
		return 0, 0
	}
	if quote, escapes = t.openingQuote(at); t.byteAt(quote) != '"' {
		return 0, 0
	}
	return quote, escapes
}

var structBegins = lazyRegexp(`^[{ \t\\\n]*(?:$|[}"]|[A-Za-z0-9_.-]+[:{])`)

// isStruct reports whether the { or & at i opens an object whose fields are judged separately.
func (t *valueReader) isStruct(i int) bool {
	return structBegins().MatchString(t.textFrom(i+1, maxKey))
}

// list returns the content of the list that the [ at i opens. This is a list in JSON, or a slice or headers as Go
// prints them.
func (t *valueReader) list(v value, i int) span {
	s := t.s
	for _, slice := range [...]string{"[]uint8{", "[]byte{", "[]byte(", "[]uint8("} {
		if strings.HasPrefix(s[i:], slice) {
			from := i + len(slice)
			if n := strings.IndexAny(t.textFrom(from, 8*maxKnown), "})"); n >= 0 {
				return span{from, from + n}
			}
			return span{from, len(s)}
		}
	}
	end := t.closingBracket(i)
	p := span{i + 1, end}
	inner := strings.TrimLeft(t.textOf(p), " \t\n")
	if inner == "" || strings.HasPrefix(inner, "{") {
		return span{}
	}
	return t.exempt(v, p)
}

// header returns the value of an unquoted header. The value extends to the end of the line, or to the quote that ends
// the surrounding text. In key=value it is one word, or everything after the scheme of an authorization.
func (t *valueReader) header(v value, i int) span {
	s := t.s
	word := t.unquoted(i)
	first := strings.TrimRight(t.textOf(word), ":")
	switch {
	case isScheme(first):
	case isWord(first) && isBlank(t.byteAt(word.to)):
		return span{}
	case v.sep != ':':
		return t.exempt(v, word)
	}
	// Quotes around the parameters of a scheme or of a cookie do not end the header.
	parameters := equalsAny(first, "Digest", "OAuth", "Hawk")
	end := i
	for end < len(s) && s[end] != '\n' && s[end] != '\r' && (!t.endsQuote(end) || parameters || t.byteAt(end+1) == ';') {
		end++
	}
	return t.exempt(v, span{i, t.trimBackslashes(i, end)})
}

var yamlItem = lazyRegexp(`^(?:\s|\\n?)*- `)

// yamlList finds the first item of a list below a key, as in "passwords:\n- x". The line end is at i and may be
// escaped.
func (t *valueReader) yamlList(i int) span {
	n := len(yamlItem().FindString(t.textFrom(i, 34)))
	if n == 0 {
		return span{}
	}
	p := t.unquoted(i + n)
	if cut := strings.IndexAny(t.textOf(p), ":\\"); cut >= 0 {
		if t.s[p.from+cut] == ':' {
			return span{}
		}
		p.to = p.from + cut
	}
	return p
}

// element finds the content of an element such as <password>x</password>. The > of its start tag is at i.
func (t *valueReader) element(i int) span {
	if strings.Contains(t.textBefore(i, 64), "SETUSER ") {
		return t.unquoted(i + 1) // a password in an ACL of Redis
	}
	k := t.keyBefore(i)
	if k.class == noKey || k.quoted {
		k = t.tag(i)
	}
	if k.class != strongKey && k.class != weakKey && k.class != authKey || k.quoted || k.spaced {
		return span{}
	}
	if cdata := "<![CDATA["; strings.HasPrefix(t.s[i+1:], cdata) {
		if end := strings.Index(t.textFrom(i+1, maxKnown), "]]"); end > len(cdata) {
			return span{i + 1 + len(cdata), i + 1 + end}
		}
	}
	rest := t.textFrom(i+1, maxKnown)
	end := strings.IndexByte(rest, '<')
	switch {
	case rest == "", end < 0 && isSpace(rest[0]), end >= 0 && !strings.HasPrefix(rest[end:], "</"):
		return span{} // a usage text, which contains <password> without a value
	case end < 0:
		return t.unquoted(i + 1)
	}
	if p := (span{i + 1, i + 1 + end}); k.class != authKey || looksEncoded(t.textOf(p)) {
		return p
	}
	return span{}
}
