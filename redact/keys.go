package redact

import (
	"regexp"
	"strings"
)

// keyClass says how certain it is that the value of a key is a secret.
type keyClass uint8

const (
	keyNone   keyClass = iota
	keyWeak            // secret, token: also words of prose and kinds of objects
	keyAuth            // auth: a secret if it looks encoded
	keyQuery           // sig, key: a secret in URLs and key=value
	keyStrong          // password, api_key
	keyHeader          // Authorization, Cookie: the whole header is
)

// keyTable finds the class of a key by its end, without regard to case and
// separators: "DB_PASSWORD", "db.password" and "dbPassword" are one.
type keyTable struct {
	suffixes [256][]keySuffix // by last byte
	words    map[string]keyClass
	begins   [256]bool // with which byte a word begins
	longest  int       // word
}

type keySuffix struct {
	text  string
	class keyClass
}

// strongKeys and the others are ends of keys.
const (
	strongKeys = `password passwords passwd passphrase passcode passwort
		apikey apikeys apitoken appkey applicationkey accesskey accesskeys accesskeyid secretkey secretkeys secretaccesskey
		privatekey privatekeys privatekeyid signingkey encryptionkey masterkey accountkey sharedkey sharedaccesskey authkey
		sshkey certificatekey clientkey licensekey routingkey integrationkey tlskey unsealkey recoverykey storagekey
		sessionkey sessionid soapsession cryptokey clientsecret clientsecrets connectionstring dockerconfigjson dockercfg
		webhookurl requirepass masterauth xamzsignature xgoogsignature fromliteral keyring pskkey`
	noKeys     = `initialclustertoken`
	weakKeys   = `secret secrets token tokens credential credentials creds secretid`
	headerKeys = `authorization cookie cookies setcookie`
	strongWord = `pwd pass jwt psk dsn otp pswd`
)

func newKeyTable() keyTable {
	t := keyTable{words: map[string]keyClass{"auth": keyAuth, "sig": keyQuery, "key": keyQuery, "signature": keyQuery, "sas": keyQuery}}
	add := func(list string, c keyClass) {
		for _, k := range strings.Fields(list) {
			last := k[len(k)-1]
			t.suffixes[last] = append(t.suffixes[last], keySuffix{k, c})
		}
	}
	add(noKeys, keyNone)
	add(headerKeys, keyHeader)
	add(strongKeys, keyStrong)
	add(weakKeys, keyWeak)
	for _, w := range strings.Fields(strongWord) {
		t.words[w] = keyStrong
	}
	for w := range t.words {
		t.begins[w[0]], t.longest = true, max(t.longest, len(w))
	}
	return t
}

// qualifier returns the length of a word that may follow the one that makes a
// key that of a secret, as in passwordHash. Digits are gone already: base64 is
// base.
func qualifier(norm []byte) int {
	if len(norm) == 0 {
		return 0
	}
	var words [3]string
	switch norm[len(norm)-1] {
	case 'e':
		words = [3]string{"value", "base"}
	case 'a':
		words = [3]string{"data"}
	case 'g':
		words = [3]string{"string"}
	case 'h':
		words = [3]string{"hash"}
	case 'n':
		words = [3]string{"plain"}
	case 't':
		words = [3]string{"text"}
	case 'w':
		words = [3]string{"raw", "new"}
	case 's':
		words = [3]string{"bytes"}
	case 'd':
		words = [3]string{"old"}
	case 'b':
		words = [3]string{"b"}
	}
	for _, w := range words {
		if w != "" && len(norm) > len(w) && string(norm[len(norm)-len(w):]) == w {
			return len(w)
		}
	}
	return 0
}

// classify returns the class of a key, which is at most maxKey bytes.
func (t *keyTable) classify(key string) keyClass {
	var buf [maxKey]byte
	norm := buf[:0]
	for i := range len(key) {
		switch c := key[i]; {
		case isUpper(c):
			norm = append(norm, c|0x20)
		case isAlnum(c):
			norm = append(norm, c)
		}
	}
	for range 3 {
		for len(norm) > 0 && isDigit(norm[len(norm)-1]) {
			norm = norm[:len(norm)-1]
		}
		if c, found := t.lookup(norm); found {
			return c
		}
		n := qualifier(norm)
		if n == 0 {
			break
		}
		norm = norm[:len(norm)-n]
	}
	word := lastWord(key, &buf)
	if len(word) == 0 || len(word) > t.longest || !t.begins[word[0]] {
		return keyNone
	}
	return t.words[string(word)]
}

func (t *keyTable) lookup(norm []byte) (c keyClass, found bool) {
	if len(norm) == 0 {
		return keyNone, false
	}
	for _, k := range t.suffixes[norm[len(norm)-1]] {
		if len(norm) >= len(k.text) && string(norm[len(norm)-len(k.text):]) == k.text {
			return k.class, true
		}
	}
	return keyNone, false
}

// lastWord returns the last word of a key in lower case: "pass" of "db_pass",
// "dbPass" and "DB_PASS", but "bypass" of "bypass".
func lastWord(key string, buf *[maxKey]byte) []byte {
	for key != "" && !isLetter(key[len(key)-1]) {
		key = key[:len(key)-1]
	}
	start := len(key)
	if start > 0 && isUpper(key[start-1]) {
		for start > 0 && isUpper(key[start-1]) {
			start--
		}
	} else {
		for start > 0 && isLower(key[start-1]) {
			start--
		}
		if start > 0 && isUpper(key[start-1]) {
			start--
		}
	}
	word := buf[:0]
	for i := start; i < len(key); i++ {
		word = append(word, key[i]|0x20)
	}
	return word
}

// maxKey is how much of a key is looked at, from its end.
const maxKey = 64

// key is the text before a separator.
type key struct {
	from, to int
	class    keyClass
	quoted   bool // "key"
	spaced   bool // white space before the separator
}

func isKeyByte(c byte) bool { return isAlnum(c) || c == '_' || c == '-' || c == '.' }

// keyBefore reads the key that ends before i.
func (sc *scanner) keyBefore(i int) key {
	s, k := sc.s, key{to: i}
	for k.to > 0 && isBlank(s[k.to-1]) && i-k.to < 3 {
		k.to--
		k.spaced = true
	}
	if k.to > 0 && isQuote(s[k.to-1]) {
		k.quoted = true
		k.to--
		for k.to > 0 && s[k.to-1] == '\\' && i-k.to < maxKey {
			k.to--
		}
	}
	k.from = k.to
	for k.from > 0 && k.to-k.from < maxKey && isKeyByte(s[k.from-1]) {
		k.from--
	}
	if k.from >= 1 && s[k.from-1] == '\\' && k.from < k.to && strings.IndexByte("nrt", s[k.from]) >= 0 {
		k.from++ // the letter of an escaped line end
	}
	text := s[k.from:k.to]
	if text == "" {
		return k
	}
	k.class = sc.r.keys.classify(text)
	switch {
	case k.class == keyNone && strings.EqualFold(text, "value"):
		k.class = sc.classOfName(k)
	case k.class == keyNone || k.class == keyQuery:
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
	for from > 0 && k.to-from < maxKey && isAlnum(s[from-1]) {
		from--
	}
	if c := sc.r.keys.classify(s[from:k.to]); c == keyStrong {
		k.from, k.class = from, c
	}
	return k
}

var nameBeforeValue = regexp.MustCompile(`(?i)name\\*["']?\s*[:=]\s*\\*["']?([A-Za-z0-9_.-]+)\\*["']?[,;\s]+\\*["']?$`)

// classOfName is for the variables of a container: the key "value" has the
// class of the name beside it, as in {"name":"DB_PASSWORD","value":"x"}.
func (sc *scanner) classOfName(k key) keyClass {
	window := sc.s[max(0, k.from-2*maxKey):k.from]
	if !strings.Contains(window, "ame") && !strings.Contains(window, "AME") {
		return keyNone
	}
	m := nameBeforeValue.FindStringSubmatch(window)
	if m == nil {
		return keyNone
	}
	name := m[1]
	c := sc.r.keys.classify(name[max(0, len(name)-maxKey):])
	if c == keyWeak {
		return keyStrong
	}
	return c
}
