package redact

import (
	"bytes"
	"strings"
)

// keyClass says how certain it is that the value of a key is a secret.
type keyClass uint8

const (
	keyNone   keyClass = iota
	keyMaybe           // hmac_key: a secret if its value looks like one
	keyLogin           // ETCDCTL_USER: what stands behind a colon
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
	ends     ending    // of the keys that have a class
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
		webhookurl requirepass masterauth xamzsignature xgoogsignature fromliteral keyring pskkey pass pw authtok mnemonic
		seedphrase crumb snmpcommunity communitystring accesscode recoverycode recoverycodes backupcode backupcodes encryptkey
		symmetrickey tacacskey radiuskey bgpkey wpakey ospfkey vrrpkey ikekey gossipkey hmackey credentialsjson unsealkeys masterpassword samlresponse honeycombteam cliauth passwordcommand kennwort motdepasse contrasena senha wachtwoord haslo phpsessid sessiontoken pinvalue hsmpin userpin`
	noKeys     = `initialclustertoken bypass compass encompass surpass overpass underpass trespass passthrough`
	weakKeys   = `secret secrets token tokens tok credential credentials creds secretid`
	headerKeys = `authorization cookie cookies setcookie`
	strongWord = `pwd pat jwt psk dsn otp pswd pwds`
)

func newKeyTable() keyTable {
	t := keyTable{words: map[string]keyClass{"auth": keyAuth, "login": keyMaybe, "sid": keyMaybe, "ticket": keyMaybe, "seed": keyMaybe, "salt": keyMaybe, "code": keyMaybe, "sig": keyQuery, "key": keyQuery, "signature": keyQuery, "sas": keyQuery}}
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
	for _, w := range []string{"user", "content", "plain", "text", "raw"} {
		t.endsWith(w)
	}
	t.endsWith("community")
	for w := range t.words {
		t.begins[w[0]], t.longest = true, max(t.longest, len(w))
		t.endsWith(w)
	}
	for _, list := range t.suffixes {
		for _, k := range list {
			t.endsWith(k.text)
		}
	}
	for _, list := range qualifiers {
		for _, w := range list {
			if w != "" {
				t.endsWith(w)
			}
		}
	}
	return t
}

// ending contains, for three letters of any case with which a key may end, one bit
// for each letter that may precede them, and anyBefore.
type ending [26 * 26 * 26]uint32

const anyBefore = 1 << 26

func (e *ending) at(a, b, c byte) *uint32 {
	return &e[(int(a|0x20-'a')*26+int(b|0x20-'a'))*26+int(c|0x20-'a')]
}

// endsWith notes how a key may end. Of a shorter word anything may stand before.
func (t *keyTable) endsWith(word string) {
	n := len(word)
	before := uint32(anyBefore<<1 - 1)
	if n > 3 {
		before = 1 << (word[n-4] - 'a')
	}
	for a := byte('a'); a <= 'z'; a++ {
		for b := byte('a'); b <= 'z'; b++ {
			if (n < 2 || word[n-2] == b) && (n < 3 || word[n-3] == a) {
				*t.ends.at(a, b, word[n-1]) |= before
			}
		}
	}
}

// mayBeKey is a fast filter for keyBefore: false means that no key with a class
// ends before i. It looks at the last three letters, and every such key has at
// least three.
func (sc *scanner) mayBeKey(i int) bool {
	end := i
	if i > 0 && isQuote(sc.s[i-1]) {
		end--
	}
	if end >= 4 && isLetter(sc.s[end-1]) && isLetter(sc.s[end-2]) && isLetter(sc.s[end-3]) {
		before := *sc.r.keys.ends.at(sc.s[end-3], sc.s[end-2], sc.s[end-1])
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
				return *sc.r.keys.ends.at(letters[2], letters[1], letters[0]) != 0
			}
		case !isKeyByte(c) && (n > 0 || !isBlank(c) && !isQuote(c) && c != '\\' && c != ']'):
			return n == 2 && strings.IndexByte("pdqPDQ", letters[1]) >= 0 || n == 1 && isQuote(sc.s[i-1])
		}
	}
	return true
}

// qualifiers are words that may follow the one that makes a key that of a secret,
// as in passwordHash, by their last byte. Digits are already removed: base64 is
// base.
var qualifiers = [256][3]string{
	'a': {"data", "sha"}, 'b': {"b"}, 'd': {"old"}, 'e': {"value", "base"}, 'g': {"string"}, 'h': {"hash"},
	'n': {"plain", "in", "json"}, 's': {"bytes"}, 't': {"text", "salt"}, 'x': {"hex"}, 'w': {"raw", "new"},
}

// qualifier returns the length of the qualifier that a key ends with.
func qualifier(norm []byte) int {
	if len(norm) == 0 {
		return 0
	}
	for _, w := range qualifiers[norm[len(norm)-1]] {
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
	user := len(norm) >= 4 && string(norm[len(norm)-4:]) == "user" && !strings.ContainsAny(key, "abcdefghijklmnopqrstuvwxyz")
	for range 3 {
		for len(norm) > 0 && isDigit(norm[len(norm)-1]) {
			norm = norm[:len(norm)-1]
		}
		if c, found := t.lookup(norm); found {
			return c
		}
		if c := t.words[string(norm)]; c == keyStrong {
			return c
		}
		n := qualifier(norm)
		if n == 0 {
			break
		}
		norm = norm[:len(norm)-n]
	}
	switch {
	case user:
		return keyLogin
	case len(norm) > 3 && string(norm[len(norm)-3:]) == "key":
		return classOfKey(key, norm[:len(norm)-3])
	}
	word := lastWord(key, &buf)
	if len(word) == 0 || len(word) > t.longest || !t.begins[word[0]] {
		return keyNone
	}
	return t.words[string(word)]
}

// harmlessKeys are names before key that make it that of a store, not of a door.
var harmlessKeys = words("public cache partition hash sort primary foreign index object map label lookup queue shard idempotency request etag")

// classOfKey returns the class of a name that ends with key; norm is the rest of
// it in lower case.
func classOfKey(key string, norm []byte) keyClass {
	switch {
	case harmlessKeys[string(norm)] || bytes.HasSuffix(norm, []byte("public")) || bytes.HasSuffix(norm, []byte("idempotency")):
		return keyNone
	case len(key) > 2 && key[0]|0x20 == 'x' && key[1] == '-':
		return keyStrong
	}
	return keyMaybe
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

// maxSpaces is how many blanks may stand between a key and its separator.
const maxSpaces = 24

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
	case k.class == keyNone && isContent(text):
		k.class = max(sc.classOfName(k), sc.classOfParent(k))
	case k.class == keyNone && strings.EqualFold(text, "community"):
		if word, _ := lastWordOf(strings.TrimRight(s[max(0, k.from-16):k.from], "\\n \n")); word.String() == "snmp" || word.String() == "auth" {
			k.class = keyStrong
		}
	case k.class == keyNone && k.quoted && len(text) <= 2 && sc.printsJWK():
		k.class = classOfParameter(text)
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
