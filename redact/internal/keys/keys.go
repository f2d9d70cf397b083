// Package keys decides from the name of a key whether its value is a secret. It ignores
// case and separators: "DB_PASSWORD", "db.password" and "dbPassword" are the same key.
package keys

import (
	"bytes"
	"slices"
	"strings"
)

// Max is how many bytes of a key are considered, from its end.
const Max = 64

// Class is how certain it is that the value of a key is a secret.
type Class uint8

// The classes, from the least certain on.
const (
	None   Class = iota
	Maybe        // hmac_key: a secret if its value looks like one
	Login        // ETCDCTL_USER: the part after a colon
	Weak         // secret, token: also words of prose and kinds of objects
	Auth         // auth: a secret if it looks encoded
	Query        // sig, key: a secret in URLs and key=value
	Strong       // password, api_key
	Header       // Authorization, Cookie: the whole header is
)

// Table finds the class of a key by its suffix. It is immutable and safe for concurrent use.
type Table struct {
	suffixes [256][]suffix // by last byte
	words    map[string]Class
	begins   [256]bool // first bytes of words
	longest  int       // length of the longest word
	ends     ending    // of the keys that have a class
}

type suffix struct {
	text  string
	class Class
}

// Suffixes of keys by class. A strongWord must be the last word of the key.
const (
	strongKeys = `password passwords passwd passphrase passcode passwort
		apikey apikeys apitoken appkey applicationkey accesskey accesskeys accesskeyid secretkey secretkeys secretaccesskey
		privatekey privatekeys privatekeyid signingkey encryptionkey masterkey accountkey sharedkey sharedaccesskey authkey
		sshkey certificatekey clientkey licensekey routingkey integrationkey tlskey unsealkey recoverykey storagekey
		sessionkey sessionid soapsession cryptokey clientsecret clientsecrets connectionstring dockerconfigjson dockercfg
		webhookurl requirepass masterauth xamzsignature xgoogsignature fromliteral keyring pskkey pass pw authtok mnemonic
		seedphrase crumb snmpcommunity communitystring accesscode recoverycode recoverycodes backupcode backupcodes encryptkey
		symmetrickey tacacskey radiuskey bgpkey wpakey ospfkey vrrpkey ikekey gossipkey hmackey credentialsjson unsealkeys masterpassword samlresponse honeycombteam cliauth passwordcommand kennwort motdepasse contrasena senha wachtwoord haslo phpsessid sessiontoken pinvalue hsmpin userpin pincode privkey fernetkey consumerkey writekey adminkey devicekey networkkey nwkkey serverkey cephxkey hubkey eabkey swiftkey insightskey ingestkey insertkey authenticationkey ipseckey rndckey userkey openaikey agekey sdkkey servicerolekey agentkey ingestionkey aeskey accesssignature totpseed otpseed
		sharedsecret appsecret signingsecret hmacsecret chapsecret tsigsecret totpsecret otpsecret radiussecret tacacssecret authsalt noncesalt hashsalt`
	noKeys     = `initialclustertoken bypass compass encompass surpass overpass underpass trespass passthrough`
	weakKeys   = `secret secrets token tokens tok credential credentials creds secretid`
	headerKeys = `authorization cookie cookies setcookie`
	strongWord = `pwd pat jwt psk dsn otp pswd pwds`
)

// New returns the table of all known keys.
func New() Table {
	t := Table{words: map[string]Class{"auth": Auth, "login": Maybe, "sid": Maybe, "ticket": Maybe, "session": Maybe, "seed": Maybe, "salt": Maybe, "code": Maybe, "sig": Query, "key": Query, "signature": Query, "sas": Query}}
	add := func(list string, c Class) {
		for _, k := range strings.Fields(list) {
			last := k[len(k)-1]
			t.suffixes[last] = append(t.suffixes[last], suffix{k, c})
		}
	}
	add(noKeys, None)
	add(headerKeys, Header)
	add(strongKeys, Strong)
	add(weakKeys, Weak)
	for _, w := range strings.Fields(strongWord) {
		t.words[w] = Strong
	}
	for w := range t.words {
		t.begins[w[0]], t.longest = true, max(t.longest, len(w))
	}
	for _, w := range Words() {
		t.endsWith(w)
	}
	return t
}

// Words returns the words that keys may end with.
func Words() []string {
	out := strings.Fields(strings.Join([]string{
		strongKeys, noKeys, weakKeys, headerKeys, strongWord,
		"auth login sid ticket session seed salt code sig key signature sas user content plain text raw community",
	}, " "))
	for _, list := range qualifiers {
		for _, w := range list {
			if w != "" {
				out = append(out, w)
			}
		}
	}
	return out
}

// ending contains, for three letters of any case with which a key may end, one bit
// for each letter that may precede them, and anyBefore.
type ending [26 * 26 * 26]uint32

const anyBefore = 1 << 26

func (e *ending) at(a, b, c byte) *uint32 {
	return &e[(int(a|0x20-'a')*26+int(b|0x20-'a'))*26+int(c|0x20-'a')]
}

// MayEnd returns 0 if no key with a class ends with these three letters of any case;
// otherwise it has bit n for the letter 'a'+n that may precede them.
func (t *Table) MayEnd(a, b, c byte) uint32 { return *t.ends.at(a, b, c) }

// endsWith adds a word that keys may end with. Any letter may precede a word of three
// letters or fewer.
func (t *Table) endsWith(word string) {
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

// qualifiers are words that may follow the word for the secret, as in passwordHash, by
// their last byte. Digits are already removed: base64 is base.
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

// Classify returns the class of a key by its last Max bytes.
func (t *Table) Classify(key string) Class {
	key = key[max(0, len(key)-Max):]
	var buf [Max]byte
	norm := buf[:0]
	for i := range len(key) {
		switch c := key[i]; {
		case isUpper(c):
			norm = append(norm, c|0x20)
		case isLetter(c) || isDigit(c):
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
		if c := t.words[string(norm)]; c == Strong {
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
		return Login
	case len(norm) > 3 && string(norm[len(norm)-3:]) == "key":
		return classOfKey(key, norm[:len(norm)-3])
	}
	word := lastWord(key, &buf)
	if len(word) == 0 || len(word) > t.longest || !t.begins[word[0]] {
		return None
	}
	return t.words[string(word)]
}

// harmlessKeys are words before "key" that make it the key of an entry in a store.
var harmlessKeys = strings.Fields("public cache partition hash sort primary foreign index object map label lookup queue shard idempotency request etag")

// classOfKey returns the class of a name that ends with key; norm is the rest of
// it in lower case.
func classOfKey(key string, norm []byte) Class {
	switch {
	case slices.Contains(harmlessKeys, string(norm)) || bytes.HasSuffix(norm, []byte("public")) || bytes.HasSuffix(norm, []byte("idempotency")):
		return None
	case len(key) > 2 && key[0]|0x20 == 'x' && key[1] == '-':
		return Strong
	}
	return Maybe
}

func (t *Table) lookup(norm []byte) (c Class, found bool) {
	if len(norm) == 0 {
		return None, false
	}
	for _, k := range t.suffixes[norm[len(norm)-1]] {
		if len(norm) >= len(k.text) && string(norm[len(norm)-len(k.text):]) == k.text {
			return k.class, true
		}
	}
	return None, false
}

// lastWord returns the last word of a key in lower case: "pass" of "db_pass",
// "dbPass" and "DB_PASS", but "bypass" of "bypass".
func lastWord(key string, buf *[Max]byte) []byte {
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

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isUpper(c byte) bool  { return c >= 'A' && c <= 'Z' }
func isLower(c byte) bool  { return c >= 'a' && c <= 'z' }
func isLetter(c byte) bool { return isUpper(c) || isLower(c) }
