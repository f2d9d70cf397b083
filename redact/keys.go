package redact

import (
	"bytes"
	"slices"
	"strings"
)

// keyReader reads the keys before separators and determines their class.
type keyReader struct {
	input
	table *keyTable
	jwk   memo // whether the text contains a JSON Web Key
}

// memo caches whether a condition holds for the whole text.
type memo struct{ known, answer bool }

func (m *memo) ask(question func() bool) bool {
	if !m.known {
		m.known, m.answer = true, question()
	}
	return m.answer
}

// key is the text before a separator.
type key struct {
	from, to int
	class    keyClass
	quoted   bool
	spaced   bool // whether white space precedes the separator
}

func (t *keyReader) name(k key) string { return t.s[k.from:k.to] }

// maxSpaces is the maximum number of blanks between a key and its separator.
const maxSpaces = 24

// keyBefore reads the key that ends before i.
func (t *keyReader) keyBefore(i int) key {
	s, k := t.s, key{to: t.runStart(i, maxSpaces, blanks)}
	k.spaced = k.to < i
	if k.to > 1 && s[k.to-1] == ']' && (isQuote(s[k.to-2]) || strings.HasPrefix(s[i:], "=>")) { // a key in brackets, as in ["password"] =
		k.to--
	}
	if k.to > 0 && isQuote(s[k.to-1]) {
		k.quoted = true
		k.to--
		for k.to > 0 && s[k.to-1] == '\\' && i-k.to < maxKey {
			k.to--
		}
	}
	k.from = t.runStart(k.to, maxKey, keyBytes)
	if k.from >= 1 && s[k.from-1] == '\\' && k.from < k.to && strings.IndexByte("nrt", s[k.from]) >= 0 {
		k.from++ // the letter belongs to an escaped line end
	}
	name := t.name(k)
	k.class = t.table.classify(name)
	switch {
	case k.class == noKey && equalsAny(name, "value", "content", "plain", "plaintext", "raw"): // the name of the value is in a neighbouring key, or is the key of the surrounding object
		k.class = max(t.classOfName(k), t.classOfParent(k))
	case k.class == noKey && strings.EqualFold(name, "community"):
		if word, _ := lastWordOf(strings.TrimRight(t.textBefore(k.from, 16), "\\n \n")); word.String() == "snmp" || word.String() == "auth" {
			k.class = strongKey
		}
	case k.class == noKey && k.quoted && partsOfJWK[name] && t.jwk.ask(func() bool { return strings.Contains(s, "kty") }):
		k.class = strongKey
	case k.class == noKey || k.class == queryKey:
		k = t.phrase(k)
	}
	return k
}

// partsOfJWK are the names of the private members of a JSON Web Key.
var partsOfJWK = words("jwk")

// equalsAny reports whether s equals one of the words, ignoring case.
func equalsAny(s string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(s, w) })
}

// phrase returns the key together with the word before it if they form one key, such as "API key" or "Unseal Key 1".
// Otherwise it returns k.
func (t *keyReader) phrase(k key) key {
	s := t.s
	end := t.runStart(k.to, 4, digitsAndBlanks)
	if end < 5 || s[end-1]|0x20 != 'y' || !strings.EqualFold(s[end-3:end], "key") || !isBlank(s[end-4]) || !isAlnum(s[end-5]) {
		return k
	}
	from := t.runStart(end-4, maxKey-(k.to-end+4), alnums)
	if c := t.table.classify(s[from:k.to]); c == strongKey && !strings.EqualFold(s[from:end-4], "insert") {
		k.from, k.class = from, c
	}
	return k
}

// classOfParent returns the class of the key whose value is the object that contains k, as in
// {"password":{"value":"x"}}.
func (t *keyReader) classOfParent(k key) keyClass {
	window := t.textBefore(k.from, 2*maxKey)
	open := strings.LastIndexAny(window, "{}[]")
	if open < 0 {
		return noKey
	}
	parent := strings.TrimRight(strings.TrimSuffix(window[:open], "map"), "\"'\\: ")
	if strings.Contains(window[len(parent):open], ":") && t.table.classify(parent) >= weakKey {
		return strongKey
	}
	return noKey
}

// classOfName returns the class for a key such as "value" whose name is in the preceding member, as in
// {"name":"DB_PASSWORD","value":"x"}.
func (t *keyReader) classOfName(k key) keyClass {
	window := t.textBefore(k.from, 2*maxKey)
	for n := -1; n != len(window); { // repeated, because line ends may be escaped
		n = len(window)
		window = strings.TrimSuffix(strings.TrimSuffix(strings.TrimRight(window, "\"'\\,; \t\r\n"), `\n`), `\r`)
	}
	in := input{s: window}
	name := window[in.runStart(len(window), len(window), pathBytes):]
	if strings.HasPrefix(name, "/stringData/") { // a path in a patch of a Secret
		return strongKey
	}
	return t.table.classify(name)
}

// tag returns the name of an element with attributes as a key. The > of its start tag is at i.
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

// keyClass states how certain it is that the value of a key is a secret.
type keyClass uint8

// The classes in ascending order of certainty.
const (
	noKey     keyClass = iota
	maybeKey           // secret if the value looks like one, as after hmac_key
	loginKey           // the text after a colon in the value is a secret, as in ETCDCTL_USER
	weakKey            // secret unless the value is prose or the name of an object, as after secret and token
	authKey            // secret if the value looks encoded, as after auth
	queryKey           // secret in URLs and in key=value, as after sig and key
	strongKey          // the value is always a secret; examples are password and api_key
	headerKey          // the whole header is a secret, as after Authorization and Cookie
)

// maxKey is the maximum length of a key in bytes. Of a longer key, only the end is considered.
const maxKey = 64

// keyTable finds the class of a key by its suffix. It ignores case and separators, so
// "DB_PASSWORD", "db.password" and "dbPassword" are the same key. It is immutable.
type keyTable struct {
	suffixes [256][]keySuffix    // suffixes by their last byte, in the order harmless, with a class, qualifiers
	words    map[string]keyClass // class of a key, by its last word
	// ends is a fast filter with an entry for each combination of three letters at the end of a key that has a class.
	// Each letter gives five bits of the index, and zeros stand for no letter. The entry has a bit for each letter that
	// may precede these letters. Bit 0 means that none need precede them.
	ends [1 << 15]uint32
}

type keySuffix struct {
	text  string
	class keyClass
}

// qualifier is the class of a word that may follow the name of a secret, such as hash in passwordHash.
const qualifier keyClass = 255

func newKeyTable() *keyTable {
	t := &keyTable{words: map[string]keyClass{}}
	for _, list := range []keySuffix{{"harmlessKey", noKey}, {"header", headerKey}, {"strong", strongKey}, {"weak", weakKey}, {"qualifier", qualifier}} {
		for w := range words(list.text) {
			last := w[len(w)-1]
			t.suffixes[last] = append(t.suffixes[last], keySuffix{w, list.class})
			t.addEnd(w)
		}
	}
	for w := range words("otherEnd") {
		t.addEnd(w)
	}
	for w := range partsOfJWK {
		if len(w) == 1 {
			t.ends[w[0]&31] |= 1 // only the whole key, not the end of a longer one
		}
	}
	for name, class := range map[string]keyClass{"strongWord": strongKey, "maybeWord": maybeKey, "authWord": authKey, "queryWord": queryKey} {
		for w := range words(name) {
			t.words[w] = class
			t.addEnd(w)
		}
	}
	return t
}

func (t *keyTable) addEnd(word string) {
	end, before := 0, ^uint32(0) // any letter may precede a short word
	if n := len(word); n > 3 {
		before = 1 << (word[n-4] & 31)
	}
	for _, c := range []byte(word[max(0, len(word)-3):]) {
		end = end<<5 | int(c&31)
	}
	for step := 1 << (5 * min(3, len(word))); end < len(t.ends); end += step {
		t.ends[end] |= before
	}
}

// mayEnd is a fast filter. If it returns false, no key that has a class ends with the last letters of s. Other bytes at
// the end of s do not matter. Between the letters of a key there may be punctuation and blanks, but no quotes and no
// digits.
func (t *keyTable) mayEnd(s string) bool {
	n := len(s)
	for n > 0 && !letters[s[n-1]] {
		n--
	}
	var last [4]uint32 // the last four letters; zero where there are fewer
	for k := len(last) - 1; k >= 0 && n > 0; n-- {
		c := s[n-1]
		if letters[c] {
			last[k] = uint32(c & 31)
			k--
		} else if isDigit(c) || isQuote(c) {
			break
		}
	}
	return t.ends[last[1]<<10|last[2]<<5|last[3]]>>last[0]&1 != 0
}

// classify returns the class of a key. It considers only the last maxKey bytes.
func (t *keyTable) classify(key string) keyClass {
	key = key[max(0, len(key)-maxKey):]
	if !t.mayEnd(key) {
		return noKey
	}
	var buf [maxKey]byte
	norm := buf[:0]
	for _, c := range []byte(key) {
		if isUpper(c) {
			norm = append(norm, c|0x20)
		} else if isAlnum(c) {
			norm = append(norm, c)
		}
	}
	isUser := strings.HasSuffix(key, "USER") && !strings.ContainsAny(key, lowers)
	for qualified := true; qualified; {
		for len(norm) > 0 && isDigit(norm[len(norm)-1]) { // digits are dropped, so that base64 becomes the qualifier base
			norm = norm[:len(norm)-1]
		}
		if len(norm) == 0 {
			break
		}
		qualified = false
		for _, suffix := range t.suffixes[norm[len(norm)-1]] {
			from := len(norm) - len(suffix.text)
			if from < 0 || norm[from] != suffix.text[0] || string(norm[from:]) != suffix.text {
				continue
			}
			if suffix.class != qualifier {
				return suffix.class
			}
			if from > 0 && t.words[string(norm)] != strongKey {
				norm, qualified = norm[:from], true
			}
			break
		}
	}
	switch {
	case t.words[string(norm)] == strongKey:
		return strongKey
	case isUser:
		return loginKey
	case len(norm) > 3 && string(norm[len(norm)-3:]) == "key":
		return classOfKey(key, norm[:len(norm)-3])
	}
	return t.words[string(appendLower(buf[:0], lastWord(key)))]
}

var beforeKey = words("beforeKey")

// classOfKey returns the class of a name that ends with "key". rest is the text before "key", in lower case.
func classOfKey(key string, rest []byte) keyClass {
	switch {
	case beforeKey[string(rest)] || bytes.HasSuffix(rest, []byte("public")):
		return noKey
	case len(key) > 2 && key[0]|0x20 == 'x' && key[1] == '-':
		return strongKey
	}
	return maybeKey
}

// lastWord returns the last word of a key, which is "pass" for "db_pass", "Pass" for "dbPass", and "bypass" for
// "bypass".
func lastWord(key string) string {
	t := input{s: key}
	end := t.runStart(len(key), len(key), notLetters)
	if start := t.runStart(end, end, upperLetters); start < end {
		return key[start:end]
	}
	start := t.runStart(end, end, lowerLetters)
	if start > 0 && isUpper(key[start-1]) {
		start--
	}
	return key[start:end]
}
