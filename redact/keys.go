package redact

import (
	"slices"
	"strings"
)

// keyReader reads the keys before separators and says whether they announce a secret.
type keyReader struct {
	input
	table *keyTable
	jwk   memo // the text has a JSON web key
}

// memo is the answer to a question about the whole text, once it is known.
type memo struct{ known, is bool }

func (m *memo) ask(question func() bool) bool {
	if !m.known {
		m.known, m.is = true, question()
	}
	return m.is
}

// key is the text before a separator.
type key struct {
	from, to int
	class    keyClass
	quoted   bool // "key"
	spaced   bool // white space before the separator
}

func (t *keyReader) name(k key) string { return t.s[k.from:k.to] }

func isKeyByte(c byte) bool { return isDotted(c) }

// maxSpaces bounds the blanks between a key and its separator.
const maxSpaces = 24

// mayBeKey is a fast filter for keyBefore: false means that no key with a class ends
// before i. It looks at the last three letters, and every such key has at least three.
func (t *keyReader) mayBeKey(i int) bool {
	end := i
	if i > 0 && isQuote(t.s[i-1]) {
		end--
	}
	if end >= 4 && isLetter(t.s[end-1]) && isLetter(t.s[end-2]) && isLetter(t.s[end-3]) {
		return t.table.mayEnd(t.s[end-4 : end])
	}
	var letters [3]byte
	n := 0
	for at := i - 1; i-at < maxSpaces+24; at-- {
		c := t.byteAt(at)
		switch {
		case isLetter(c):
			letters[n] = c
			if n++; n == len(letters) {
				return t.table.mayEnd(string([]byte{letters[2], letters[1], letters[0]}))
			}
		case !isKeyByte(c) && (n > 0 || !isBlank(c) && !isQuote(c) && c != '\\' && c != ']'):
			return n == 2 && strings.IndexByte("pdqPDQ", letters[1]) >= 0 || n == 1 && isQuote(t.s[i-1]) && strings.IndexByte("dpqk", letters[0]) >= 0
		}
	}
	return true
}

// keyBefore reads the key that ends before i.
func (t *keyReader) keyBefore(i int) key {
	s, k := t.s, key{to: t.back(i, maxSpaces, blanks)}
	k.spaced = k.to < i
	if k.to > 1 && s[k.to-1] == ']' && (isQuote(s[k.to-2]) || strings.HasPrefix(s[i:], "=>")) { // ["password"] =
		k.to--
	}
	if k.to > 0 && isQuote(s[k.to-1]) {
		k.quoted = true
		k.to--
		for k.to > 0 && s[k.to-1] == '\\' && i-k.to < maxKey {
			k.to--
		}
	}
	k.from = t.back(k.to, maxKey, keyBytes)
	if k.from >= 1 && s[k.from-1] == '\\' && k.from < k.to && strings.IndexByte("nrt", s[k.from]) >= 0 {
		k.from++ // the letter of an escaped line end
	}
	name := t.name(k)
	if name == "" {
		return k
	}
	k.class = t.table.classify(name)
	switch {
	case k.class == noKey && equalsAny(name, "value", "content", "plain", "plaintext", "raw"): // a key beside it, or its parent, names the value
		k.class = max(t.classOfName(k), t.classOfParent(k))
	case k.class == noKey && strings.EqualFold(name, "community"):
		if word, _ := lastWordOf(strings.TrimRight(t.before(k.from, 16), "\\n \n")); word.String() == "snmp" || word.String() == "auth" {
			k.class = strongKey
		}
	case k.class == noKey && k.quoted && isPartOfJWK(name) && t.jwk.ask(func() bool { return strings.Contains(s, "kty") }):
		k.class = strongKey
	case k.class == noKey || k.class == queryKey:
		k = t.phrase(k)
	}
	return k
}

// isPartOfJWK reports whether a name is that of a private part of a JSON web key.
func isPartOfJWK(name string) bool {
	return len(name) <= 2 && slices.Contains([]string{"d", "p", "q", "dp", "dq", "qi", "k"}, name)
}

// equalsAny reports whether s is one of the words, in any case.
func equalsAny(s string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(s, w) })
}

// phrase finds keys of two words, such as "API key" and "Unseal Key 1".
func (t *keyReader) phrase(k key) key {
	s := t.s
	end := t.back(k.to, 4, digitsAndBlanks)
	if end < 5 || s[end-1]|0x20 != 'y' || !strings.EqualFold(s[end-3:end], "key") || !isBlank(s[end-4]) || !isAlnum(s[end-5]) {
		return k
	}
	from := t.back(end-4, maxKey-(k.to-end+4), alnums)
	if c := t.table.classify(s[from:k.to]); c == strongKey && !strings.EqualFold(s[from:end-4], "insert") {
		k.from, k.class = from, c
	}
	return k
}

// classOfParent is the class of the key that opens the object of k, as in
// {"password":{"value":"x"}}.
func (t *keyReader) classOfParent(k key) keyClass {
	window := t.before(k.from, 2*maxKey)
	open := strings.LastIndexAny(window, "{}[]")
	if open < 0 || window[open] == '}' || window[open] == ']' {
		return noKey
	}
	parent := strings.TrimRight(strings.TrimSuffix(window[:open], "map"), "\"'\\: ")
	if strings.Contains(window[len(parent):open], ":") && t.table.classify(parent) >= weakKey {
		return strongKey
	}
	return noKey
}

// classOfName is for the variables of a container: the key "value" has the class of the
// name beside it, as in {"name":"DB_PASSWORD","value":"x"}.
func (t *keyReader) classOfName(k key) keyClass {
	window := t.before(k.from, 2*maxKey)
	for n := -1; n != len(window); { // Line ends may be escaped.
		n = len(window)
		window = strings.TrimSuffix(strings.TrimSuffix(strings.TrimRight(window, "\"'\\,; \t\r\n"), `\n`), `\r`)
	}
	in := input{s: window}
	from := in.back(len(window), len(window), pathBytes)
	label := strings.TrimRight(window[:from], "\"'\\ :=")
	n := len(label)
	if !strings.ContainsAny(window[n:from], ":=") || !equalsAny(label[max(0, n-4):], "name", "path") && !equalsAny(label[max(0, n-3):], "key") {
		return noKey
	}
	if c := t.table.classify(window[from:]); c != weakKey && !strings.HasPrefix(window[from:], "/stringData/") { // no path in a patch of a Secret
		return c
	}
	return strongKey
}

// tag is the name of an element with attributes, whose > is at i.
func (t *keyReader) tag(i int) key {
	if i == 0 || !isQuote(t.s[i-1]) {
		return key{}
	}
	from := max(0, i-2*maxKey)
	open := strings.LastIndexByte(t.s[from:i], '<')
	if open < 0 {
		return key{}
	}
	to := t.run(from+open+1, tagBytes)
	at := to - 1
	for at > from+open && isKeyByte(t.s[at]) {
		at--
	}
	return key{from: at + 1, to: to, class: t.table.classify(t.s[at+1 : to])}
}
