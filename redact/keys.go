package redact

import (
	"slices"
	"strings"

	"crowsnest/redact/internal/keys"
)

// keyReader reads the keys before separators and says whether they announce a secret.
type keyReader struct {
	input
	table *keys.Table
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
	class    keys.Class
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
		before := t.table.MayEnd(t.s[end-3], t.s[end-2], t.s[end-1])
		if c := t.s[end-4]; isLetter(c) {
			return before&(1<<(c|0x20-'a')) != 0
		}
		return before != 0
	}
	var letters [3]byte
	n := 0
	for at := i - 1; i-at < maxSpaces+24; at-- {
		c := t.byteAt(at)
		switch {
		case isLetter(c):
			letters[n] = c
			if n++; n == len(letters) {
				return t.table.MayEnd(letters[2], letters[1], letters[0]) != 0
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
		for k.to > 0 && s[k.to-1] == '\\' && i-k.to < keys.Max {
			k.to--
		}
	}
	k.from = t.back(k.to, keys.Max, keyBytes)
	if k.from >= 1 && s[k.from-1] == '\\' && k.from < k.to && strings.IndexByte("nrt", s[k.from]) >= 0 {
		k.from++ // the letter of an escaped line end
	}
	name := t.name(k)
	if name == "" {
		return k
	}
	k.class = t.table.Classify(name)
	switch {
	case k.class == keys.None && equalsAny(name, "value", "content", "plain", "plaintext", "raw"): // of what is named beside it or by its parent
		k.class = max(t.classOfName(k), t.classOfParent(k))
	case k.class == keys.None && strings.EqualFold(name, "community"):
		if word, _ := lastWordOf(strings.TrimRight(t.before(k.from, 16), "\\n \n")); word.String() == "snmp" || word.String() == "auth" {
			k.class = keys.Strong
		}
	case k.class == keys.None && k.quoted && isPartOfJWK(name) && t.jwk.ask(func() bool { return strings.Contains(s, "kty") }):
		k.class = keys.Strong
	case k.class == keys.None || k.class == keys.Query:
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
	from := t.back(end-4, keys.Max-(k.to-end+4), alnums)
	if c := t.table.Classify(s[from:k.to]); c == keys.Strong && !strings.EqualFold(s[from:end-4], "insert") {
		k.from, k.class = from, c
	}
	return k
}

// classOfParent is the class of the key that opens the object of k, as in
// {"password":{"value":"x"}}.
func (t *keyReader) classOfParent(k key) keys.Class {
	from := max(0, k.from-2*keys.Max)
	at := k.from - 1
	for depth := 0; at > from; at-- {
		switch t.s[at] {
		case '}', ']':
			depth++
			continue
		case '{', '[':
			depth--
		}
		if depth < 0 {
			break
		}
	}
	parent, found := strings.CutSuffix(strings.TrimRight(strings.TrimSuffix(t.s[from:max(at, from)], "map"), " "), ":")
	if !found {
		return keys.None
	}
	parent = strings.TrimRight(parent, `"'\ `)
	n := len(parent)
	for n > 0 && isKeyByte(parent[n-1]) {
		n--
	}
	if t.table.Classify(parent[n:]) >= keys.Weak {
		return keys.Strong
	}
	return keys.None
}

var nameBeforeValue = lazily(`(?i)(?:name|key|path)\\*["']?\s*[:=]\s*\\*["']?([A-Za-z0-9_./~-]+?)\\*["']?(?:[,;\s]|\\+[nr])+\\*["']?$`)

// classOfName is for the variables of a container: the key "value" has the class of the
// name beside it, as in {"name":"DB_PASSWORD","value":"x"}.
func (t *keyReader) classOfName(k key) keys.Class {
	window := t.before(k.from, 2*keys.Max)
	if !strings.Contains(window, "ame") && !strings.Contains(window, "AME") && !strings.Contains(window, "ey") && !strings.Contains(window, "ath") {
		return keys.None
	}
	m := nameBeforeValue().FindStringSubmatch(window)
	if m == nil {
		return keys.None
	}
	if c := t.table.Classify(m[1]); c != keys.Weak && !strings.HasPrefix(m[1], "/stringData/") { // of a patch
		return c
	}
	return keys.Strong
}

// tag is the name of an element with attributes, whose > is at i.
func (t *keyReader) tag(i int) key {
	if i == 0 || !isQuote(t.s[i-1]) {
		return key{}
	}
	from := max(0, i-2*keys.Max)
	open := strings.LastIndexByte(t.s[from:i], '<')
	if open < 0 {
		return key{}
	}
	to := t.run(from+open+1, tagBytes)
	at := to - 1
	for at > from+open && isKeyByte(t.s[at]) {
		at--
	}
	return key{from: at + 1, to: to, class: t.table.Classify(t.s[at+1 : to])}
}
