package redact

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// keyClass is how certain it is that the value of a key is a secret.
type keyClass uint8

// The classes, from the least certain on.
const (
	noKey     keyClass = iota
	maybeKey           // hmac_key: a secret if its value looks like one
	loginKey           // ETCDCTL_USER: the part after a colon
	weakKey            // secret, token: also words of prose and kinds of objects
	authKey            // auth: a secret if it looks encoded
	queryKey           // sig, key: a secret in URLs and key=value
	strongKey          // password, api_key
	headerKey          // Authorization, Cookie: the whole header is
)

// maxKey is how many bytes of a key are considered, from its end.
const maxKey = 64

// keyTable finds the class of a key by its suffix. Case and separators do not matter:
// "DB_PASSWORD", "db.password" and "dbPassword" are the same key. It is immutable.
type keyTable struct {
	suffixes [256][]string // suffixes by last byte; harmless suffixes come first
	classes  map[string]keyClass
	words    map[string]keyClass // class by the last word of a key
	// ends has, for the last three letters of keys, a bit for each letter that may precede them.
	ends [1 << 15]uint32
}

func newKeyTable() *keyTable {
	t := &keyTable{classes: map[string]keyClass{}, words: map[string]keyClass{}}
	for _, list := range []struct {
		name  string
		class keyClass
	}{{"harmlessKey", noKey}, {"header", headerKey}, {"strong", strongKey}, {"weak", weakKey}} {
		for w := range words(list.name) {
			last := w[len(w)-1]
			t.suffixes[last] = append(t.suffixes[last], w)
			t.classes[w] = list.class
			t.mayEndWith(w)
		}
	}
	for name, class := range map[string]keyClass{"strongWord": strongKey, "maybeWord": maybeKey, "authWord": authKey, "queryWord": queryKey} {
		for w := range words(name) {
			t.words[w] = class
			t.mayEndWith(w)
		}
	}
	for _, name := range []string{"qualifier", "otherEnd"} {
		for w := range words(name) {
			t.mayEndWith(w)
		}
	}
	return t
}

// mayEndWith adds a word that keys may end with. Any letter may precede a word of three
// letters or fewer.
func (t *keyTable) mayEndWith(word string) {
	before := ^uint32(0)
	if n := len(word); n > 3 {
		before = 1 << (word[n-4] & 31)
	}
	if len(word) >= 3 {
		t.ends[endIndex(word)] |= before
		return
	}
	for i := range t.ends {
		if same := 1<<(5*len(word)) - 1; i&same == endIndex(word) {
			t.ends[i] |= before
		}
	}
}

// endIndex returns the last three letters of a word, of any case, as a number of 15 bits.
func endIndex(word string) (i int) {
	for _, c := range []byte(word[max(0, len(word)-3):]) {
		i = i<<5 | int(c&31)
	}
	return i
}

// mayEnd reports false if no key with a class ends with a text, whose last three bytes are letters.
func (t *keyTable) mayEnd(s string) bool {
	before, n := t.ends[endIndex(s)], len(s)
	if n > 3 && isLetter(s[n-4]) {
		return before&(1<<(s[n-4]&31)) != 0
	}
	return before != 0
}

// classify returns the class of a key by its last maxKey bytes.
func (t *keyTable) classify(key string) keyClass {
	key = key[max(0, len(key)-maxKey):]
	var buf [maxKey]byte
	norm := buf[:0]
	for i := range len(key) {
		if c := key[i]; isUpper(c) {
			norm = append(norm, c|0x20)
		} else if isAlnum(c) {
			norm = append(norm, c)
		}
	}
	isUser := len(norm) >= 4 && string(norm[len(norm)-4:]) == "user"
	for range 3 {
		for len(norm) > 0 && isDigit(norm[len(norm)-1]) {
			norm = norm[:len(norm)-1]
		}
		if len(norm) == 0 {
			break
		}
		for _, suffix := range t.suffixes[norm[len(norm)-1]] {
			if len(norm) >= len(suffix) && string(norm[len(norm)-len(suffix):]) == suffix {
				return t.classes[suffix]
			}
		}
		if t.words[string(norm)] == strongKey {
			return strongKey
		}
		n := qualifier(norm)
		if n == 0 {
			break
		}
		norm = norm[:len(norm)-n]
	}
	switch {
	case isUser && !strings.ContainsAny(key, lowers):
		return loginKey
	case len(norm) > 3 && string(norm[len(norm)-3:]) == "key":
		return classOfKey(key, norm[:len(norm)-3])
	}
	word := buf[:0]
	for _, c := range []byte(lastWord(key)) {
		word = append(word, c|0x20)
	}
	return t.words[string(word)]
}

var qualifiers = words("qualifier")

// qualifier returns the length of the word that may follow the one for the secret, as in
// passwordHash. Digits are removed before, so base64 is base.
func qualifier(norm []byte) int {
	for n := min(len(norm)-1, len("string")); n > 0; n-- {
		if qualifiers[string(norm[len(norm)-n:])] {
			return n
		}
	}
	return 0
}

var beforeKey = words("beforeKey")

// classOfKey returns the class of a name that ends with key; rest is what is before, in lower case.
func classOfKey(key string, rest []byte) keyClass {
	switch {
	case beforeKey[string(rest)] || bytes.HasSuffix(rest, []byte("public")) || bytes.HasSuffix(rest, []byte("idempotency")):
		return noKey
	case len(key) > 2 && key[0]|0x20 == 'x' && key[1] == '-':
		return strongKey
	}
	return maybeKey
}

// lastWord returns the last word of a key: "pass" of "db_pass", "Pass" of "dbPass", but "bypass"
// of "bypass".
func lastWord(key string) string {
	key = strings.TrimRightFunc(key, func(r rune) bool { return r >= utf8.RuneSelf || !isLetter(byte(r)) })
	if upper := strings.TrimRight(key, capitals); upper != key {
		return key[len(upper):]
	}
	start := len(strings.TrimRight(key, lowers))
	if start > 0 && isUpper(key[start-1]) {
		start--
	}
	return key[start:]
}
