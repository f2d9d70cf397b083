package redact

import (
	"strings"

	"crowsnest/redact/internal/keys"
)

// mayBeKey is a fast filter for keyBefore: false means that no key with a class
// ends before i. It looks at the last three letters, and every such key has at
// least three.
func (sc *scanner) mayBeKey(i int) bool {
	end := i
	if i > 0 && isQuote(sc.s[i-1]) {
		end--
	}
	if end >= 4 && isLetter(sc.s[end-1]) && isLetter(sc.s[end-2]) && isLetter(sc.s[end-3]) {
		before := sc.r.keys.MayEnd(sc.s[end-3], sc.s[end-2], sc.s[end-1])
		if c := sc.s[end-4]; isLetter(c) {
			return before&(1<<(c|0x20-'a')) != 0
		}
		return before != 0
	}
	var letters [3]byte
	n := 0
	for at := i - 1; i-at < maxSpaces+24; at-- {
		c := sc.byteAt(at)
		switch {
		case isLetter(c):
			letters[n] = c
			if n++; n == len(letters) {
				return sc.r.keys.MayEnd(letters[2], letters[1], letters[0]) != 0
			}
		case !isKeyByte(c) && (n > 0 || !isBlank(c) && !isQuote(c) && c != '\\' && c != ']'):
			return n == 2 && strings.IndexByte("pdqPDQ", letters[1]) >= 0 || n == 1 && isQuote(sc.s[i-1])
		}
	}
	return true
}

// maxSpaces bounds the blanks between a key and its separator.
const maxSpaces = 24

// key is the text before a separator.
type key struct {
	from, to int
	class    keys.Class
	quoted   bool // "key"
	spaced   bool // white space before the separator
}

func isKeyByte(c byte) bool { return isAlnum(c) || c == '_' || c == '-' || c == '.' }

// keyBefore reads the key that ends before i.
func (sc *scanner) keyBefore(i int) key {
	s, k := sc.s, key{to: i}
	for k.to > 0 && isBlank(s[k.to-1]) && i-k.to < maxSpaces {
		k.to--
		k.spaced = true
	}
	if k.to > 0 && s[k.to-1] == ']' && sc.byteAt(i+1) == '>' { // ["password"]=> of PHP
		k.to--
	}
	if k.to > 0 && isQuote(s[k.to-1]) {
		k.quoted = true
		k.to--
		for k.to > 0 && s[k.to-1] == '\\' && i-k.to < keys.Max {
			k.to--
		}
	}
	k.from = k.to
	for k.from > 0 && k.to-k.from < keys.Max && isKeyByte(s[k.from-1]) {
		k.from--
	}
	if k.from >= 1 && s[k.from-1] == '\\' && k.from < k.to && strings.IndexByte("nrt", s[k.from]) >= 0 {
		k.from++ // the letter of an escaped line end
	}
	text := s[k.from:k.to]
	if text == "" {
		return k
	}
	k.class = sc.r.keys.Classify(text)
	switch {
	case k.class == keys.None && isContent(text):
		k.class = max(sc.classOfName(k), sc.classOfParent(k))
	case k.class == keys.None && strings.EqualFold(text, "community"):
		if word, _ := lastWordOf(strings.TrimRight(s[max(0, k.from-16):k.from], "\\n \n")); word.String() == "snmp" || word.String() == "auth" {
			k.class = keys.Strong
		}
	case k.class == keys.None && k.quoted && len(text) <= 2 && sc.printsJWK():
		k.class = classOfParameter(text)
	case k.class == keys.None || k.class == keys.Query:
		k = sc.phrase(k)
	}
	return k
}

// phrase finds keys of two words, such as "API key" and "Unseal Key 1".
func (sc *scanner) phrase(k key) key {
	s := sc.s
	end := k.to
	for end > 0 && k.to-end < 4 && (isDigit(s[end-1]) || isBlank(s[end-1])) {
		end--
	}
	if end < 5 || s[end-1]|0x20 != 'y' || !strings.EqualFold(s[end-3:end], "key") || !isBlank(s[end-4]) || !isAlnum(s[end-5]) {
		return k
	}
	from := end - 4
	for from > 0 && k.to-from < keys.Max && isAlnum(s[from-1]) {
		from--
	}
	if c := sc.r.keys.Classify(s[from:k.to]); c == keys.Strong {
		k.from, k.class = from, c
	}
	return k
}
