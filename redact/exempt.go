package redact

import (
	"encoding/base64"
	"slices"
	"strings"

	"crowsnest/redact/internal/clean"
	"crowsnest/redact/internal/shape"
)

// maxKnown bounds the values that can be recognised as harmless. A longer value is
// hidden, which also keeps the scan linear.
const maxKnown = 1 << 10

// proseWords are words that follow "token: " or "Secret: " in error messages. Any
// other word there is considered a secret.
var proseWords = words("prose")

// isWord reports whether s is a word of prose, or an error code of OAuth, rather than a secret.
func isWord(s string) bool {
	s = strings.TrimRight(s, ",.;:!?")
	if cut := strings.IndexByte(s, '\''); cut > 0 { // couldn't
		s = s[:cut]
	}
	var buf [24]byte
	if s == "" || len(s) > len(buf) {
		return false
	}
	for i := range len(s) {
		if !isLetter(s[i]) && s[i] != '_' {
			return false
		}
		buf[i] = s[i]
		if s[i] != '_' {
			buf[i] |= 0x20
		}
	}
	return proseWords[string(buf[:len(s)])]
}

var (
	errorPrefix = lazily(`^(?:(?:No)?(?:[A-Z]?[a-z]{2,}){1,5}|x509|oauth2|http2|tls|[a-z]+\.[A-Z][a-z]+|[a-z]+/[a-z]+):$`)
	variable    = lazily(`^[A-Z]+(_[A-Z]+)+$`)
	kindName    = lazily(`^(?:[A-Z][a-z]+){2,5}$`)
	linePlace   = lazily(`^[0-9]{1,4}:[0-9]{1,4}:$`) // the place of an error in a Go template, whose name precedes it
	objectName  = lazily(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z]([-a-z0-9]*[a-z0-9])?)+$`)
	statusCode  = lazily(`^(?:[Ss]tatus_?[Cc]ode=)?[1-5][0-9][0-9]$`)
	urlPrefix   = lazily(`^[a-z][a-z0-9+]{1,15}://`)
)

// isProse reports whether what follows "token: " or "Secret: " is the rest of an
// error message, not a value.
func (t *valueReader) isProse(v value, p span) bool {
	s := t.s
	text := s[p.from:p.to]
	end := p.to
	for end < len(s) && strings.IndexByte(",;:)", s[end]) >= 0 {
		end++
	}
	more := end+1 < len(s) && isBlank(s[end]) && !isSpace(s[end+1])
	before := t.byteAt(v.key.from - 1)
	switch {
	case v.sep == ':' && more && (isWord(text) || variable().MatchString(text) && isWord(t.wordAt(end+1)) || strings.HasSuffix(text, ":") && errorPrefix().MatchString(text)):
		return true
	case v.key.class == strongKey:
		return strings.EqualFold(t.name(v.key), "pass") && len(text) < 5 && smallNumber().MatchString(text)
	case v.key.quoted && isBlank(before):
		return more // "Invalid credentials": the end of a sentence
	case v.key.quoted && before != '/':
		return false // "token": x, but not 'namespace/my-token': not found
	case !v.key.quoted && t.isSyntaxError(v.key), more && isName(text) && isWord(t.wordAt(end+1)):
		return true
	case len(text) < 4, isWord(text), strings.Contains(text, "://") && urlPrefix().MatchString(text):
		return true
	case strings.HasSuffix(text, ":") && errorPrefix().MatchString(text) && more:
		return true
	case statusCode().MatchString(text) && more:
		return true
	}
	next := strings.TrimLeft(s[min(len(s), end+1):min(len(s), end+16)], `\`)
	return more && next != "" && isQuote(next[0]) && (objectName().MatchString(text) || kindName().MatchString(text))
}

// isSyntaxError reports whether a key is the word token of a parser.
func (t *valueReader) isSyntaxError(k key) bool {
	word, _ := lastWordOf(t.before(k.from, 24))
	return slices.Contains([]string{"unexpected", "expected", "illegal"}, word.String())
}

// isNotSet reports whether a value means that there is none. The first byte excludes
// most values.
func isNotSet(s string) bool {
	return s != "" && strings.IndexByte("nNuUtTfFyY<[rR(*xX-0$", s[0]) >= 0 && notSet().MatchString(s)
}

// isName reports whether s is the name of a Kubernetes object as people or controllers
// choose it: words and short random suffixes, joined by dashes.
func isName(s string) bool {
	if len(s) > maxKey || !strings.Contains(s, "-") || !name().MatchString(s) || shape.IsUUID(s) || !isLetter(s[0]) {
		return false
	}
	words := 0
	for part := range strings.SplitSeq(s, "-") {
		if len(part) > 20 {
			return false
		}
		if len(part) >= 2 && isLowerWord(part) {
			words++
		}
	}
	return words > 0
}

var (
	notSet      = lazily(`(?i)^(?:nil|null|none|undefined|true|false|yes|no|<nil>|<none>|<unset>|<set>|<empty>|<omitted>|<hidden>|<masked>|<secret>|<redacted>|\[?redacted\]?|\(nil\)|\*+|x{3,}|-+|0xc[0-9a-f]{5,12}|\$\{[A-Za-z_][A-Za-z0-9_]*\}|\$\([A-Za-z_][A-Za-z0-9_]*\))$`)
	filePath    = lazily(`^/(?:etc|var|run|home|root|tmp|opt|usr|mnt|secrets?|certs?|tls|pki|kubernetes)/[A-Za-z0-9_./-]*$|^/[A-Za-z0-9_./-]*\.(?:pem|key|crt|p12|jks|yaml|yml|json|conf|kubeconfig|txt)$`)
	object      = lazily(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-.a-z0-9]{0,250}[a-z0-9])?$`)
	name        = lazily(`^[a-z0-9]([-.a-z0-9]{0,250}[a-z0-9])?$`)
	nameOfKind  = lazily(`-(?:kubeconfig|ca|etcd|sa|proxy|tls|certs?|credentials|config|dockercfg|webhook)$`)
	namespaceIs = lazily(`(?i)^["\\]*[,;]?\s*["\\]*namespace["\\]*[=:]`)
	smallNumber = lazily(`^[0-9]{1,6}$`)
)

// exempt returns p unless its text cannot be a secret.
func (t *valueReader) exempt(v value, p span) span {
	text := t.of(p)
	if text == "" || len(text) <= maxKnown && (isNotSet(clean.Unescape(text)) || text[0] == '/' && filePath().MatchString(text)) {
		return span{}
	}
	name := t.name(v.key)
	switch v.key.class {
	case maybeKey:
		if !valueLooks(text) && !(isShouted(name) && len(text) <= maxKnown && judge(text) >= numbered) && !(shape.IsUUID(text[:min(len(text), 36)]) && opensDoor(name)) {
			return span{}
		}
	case loginKey:
		if cut := strings.IndexByte(text, '\\'); cut > 0 {
			text, p.to = text[:cut], p.from+cut
		}
		user, password, found := strings.Cut(text, ":")
		if !found || user == "" || len(password) < 4 || strings.Contains(password, ":") || strings.ContainsAny(user, "/ ") {
			return span{}
		}
		return span{p.from + len(user) + 1, p.to}
	case weakKey:
		plural := name[len(name)-1]|0x20 == 's'
		if plural && strings.Trim(text, digits) == "" || t.isObject(name, p) {
			return span{}
		}
	case authKey:
		if len(text) <= maxKnown && !looksEncoded(text) {
			return span{}
		}
	case queryKey:
		if len(text) < 16 || len(text) <= maxKnown && strings.Contains(text, "/") && strings.EqualFold(name, "key") {
			return span{}
		}
	}
	return p
}

// valueLooks reports whether the value of an ambiguous key looks like a secret.
func valueLooks(s string) bool {
	if cut := strings.IndexAny(s, `\|`); cut > 0 {
		s = s[:cut]
	}
	sh := shape.Of(s)
	if sh.Upper > 0 && sh.Lower > 0 && sh.Digit > 0 && looksChosen(s) {
		return true
	}
	if sh.Upper == 0 && sh.Upper+sh.Lower+sh.Digit < sh.Length {
		return false
	}
	return sh.Length >= shape.MinAnnounced && sh.IsSecret(true)
}

// opensDoor reports whether the word before "key" makes a name that of a secret, such
// as ingestion-key.
func opensDoor(name string) bool {
	if !strings.HasSuffix(strings.ToLower(name), "key") {
		return false
	}
	word, _ := lastWordOf(strings.ReplaceAll(strings.TrimRight(name[:len(name)-3], "-_."), "-", " "))
	w := word.String()
	return keyOf[w[strings.LastIndexByte(w, '_')+1:]]
}

// isObject reports whether the value of a key Secret, or v1.Secret, is the name of an
// object.
func (t *valueReader) isObject(key string, p span) bool {
	text := t.of(p)
	key = key[strings.LastIndexByte(key, '.')+1:]
	switch {
	case len(text) > maxKnown:
		return false
	case object().MatchString(text) && (isName(text[strings.IndexByte(text, '/')+1:]) || strings.EqualFold(key, "secret") || strings.EqualFold(key, "secrets")):
		return true
	case refersToSecret(key):
		return name().MatchString(text) && !shape.Of(text).IsSecret(true) && !shape.IsUUID(text)
	case !strings.EqualFold(key, "secret") && !strings.EqualFold(key, "secrets"):
		return false
	case isName(text):
		return true
	case !name().MatchString(text):
		return false
	}
	return nameOfKind().MatchString(text) || namespaceIs().MatchString(t.s[p.to:min(len(t.s), p.to+32)])
}

// references are the ends of keys whose value is the name of a Secret.
var references = words("reference")

func refersToSecret(key string) bool {
	key = strings.ToLower(key[max(0, len(key)-maxKey):])
	for end := range references {
		if strings.HasSuffix(key, end) {
			return true
		}
	}
	return false
}

// looksEncoded reports whether the value of auth is a user and password in base64, or
// at least not a word.
func looksEncoded(s string) bool {
	if b, err := base64.StdEncoding.DecodeString(s); err == nil && strings.IndexByte(string(b), ':') > 0 {
		return true
	}
	return len(s) >= 8 && (strings.ContainsAny(s, digits) || looksChosen(s) || looksChosen(s[strings.IndexByte(s, ':')+1:]))
}
