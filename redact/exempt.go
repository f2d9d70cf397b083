package redact

import (
	"strings"

	"crowsnest/redact/internal/clean"
	"crowsnest/redact/internal/shape"
)

// maxKnown is the maximum length in bytes of values that can be recognized as harmless. A longer value is hidden. The
// limit also keeps the scan linear.
const maxKnown = 1 << 10

// proseWords are the words that can follow "token: " or "Secret: " in error messages. Any other word at that position
// counts as a secret.
var proseWords = words("prose")

// isWord reports whether s is a word of prose or an error code of OAuth.
func isWord(s string) bool {
	s = strings.TrimRight(s, ",.;:!?")
	var buf [24]byte
	return len(s) <= len(buf) && proseWords[string(appendLower(buf[:0], s))]
}

func appendLower(dst []byte, s string) []byte {
	for _, c := range []byte(s) {
		if isUpper(c) {
			c |= 0x20
		}
		dst = append(dst, c)
	}
	return dst
}

var (
	errorPrefix = lazyRegexp(`^(?:(?:No)?(?:[A-Z]?[a-z]{2,}){1,5}|x509|oauth2|http2|tls|[a-z]+\.[A-Z][a-z]+|[a-z]+/[a-z]+):$`)
	variable    = lazyRegexp(`^[A-Z]+(_[A-Z]+)+$`)
	kindName    = lazyRegexp(`^(?:[A-Z][a-z]+){2,5}$`)
	linePlace   = lazyRegexp(`^[0-9]{1,4}:[0-9]{1,4}:$`) // position of an error in a Go template, which follows the name of the template
	objectName  = lazyRegexp(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z]([-a-z0-9]*[a-z0-9])?)+$`)
	statusCode  = lazyRegexp(`^(?:[Ss]tatus_?[Cc]ode=)?[1-5][0-9][0-9]$`)
)

// isProse reports whether the text after "token: " or "Secret: " is the rest of an error
// message, not a value.
func (t *valueReader) isProse(v value, p span) bool {
	s := t.s
	text := s[p.from:p.to]
	end := p.to
	for end < len(s) && strings.IndexByte(",;:)", s[end]) >= 0 {
		end++
	}
	more := end+1 < len(s) && isBlank(s[end])
	before := t.byteAt(v.key.from - 1)
	previous, _ := lastWordOf(t.textBefore(v.key.from, 24))
	switch {
	case v.sep == ':' && more && (isWord(text) || variable().MatchString(text) && isWord(t.wordAt(end+1))):
		return true
	case v.key.class == strongKey:
		return strings.EqualFold(t.name(v.key), "pass") && smallNumber().MatchString(text)
	case v.key.quoted && isBlank(before):
		return more // the key is the end of a quoted sentence, as in "Invalid credentials"
	case v.key.quoted && before != '/':
		return false // a secret in "token": x, but not in 'namespace/my-token': not found
	case len(text) < 4, isWord(text), equalsAny(previous.String(), "unexpected", "expected", "illegal"): // the words of the last condition come from parsers, as in: unexpected token: x
		return true
	case more && (errorPrefix().MatchString(text) || statusCode().MatchString(text)):
		return true
	}
	next := strings.TrimLeft(s[min(len(s), end+1):min(len(s), end+16)], `\`)
	return next != "" && isQuote(next[0]) && (objectName().MatchString(text) || kindName().MatchString(text))
}

// isNotSet reports whether a value means that no value is set. The test of the first byte rejects most values quickly.
func isNotSet(s string) bool {
	return s != "" && strings.IndexByte("nNuUtTfFyY<[rR(*xX-0$", s[0]) >= 0 && notSet().MatchString(s)
}

// isObjectName reports whether s has the form of the name of a Kubernetes object.
func isObjectName(s string) bool { return isLabel(s, objectBytes, 252) }

// isLabel reports whether s has at most n bytes of a set, and starts and ends with a lower-case letter or a digit.
func isLabel(s string, in class, n int) bool {
	t := input{s: s}
	last := len(s) - 1
	return last >= 0 && last < n && t.run(0, in) == len(s) && isAlnum(s[0]) && isAlnum(s[last])
}

// isName reports whether s is the name of a Kubernetes object. People and controllers build
// such names from words and short random suffixes, joined by dashes.
func isName(s string) bool {
	return len(s) <= maxKey && strings.Contains(s, "-") && isObjectName(s) && wordOfName().MatchString(s) && !shape.IsUUID(s)
}

var (
	notSet      = lazyRegexp(`(?i)^(?:nil|null|none|undefined|true|false|yes|no|<nil>|<none>|<unset>|<set>|<empty>|<omitted>|<hidden>|<masked>|<secret>|<redacted>|\[?redacted\]?|\(nil\)|\*+|x{3,}|-+|0xc[0-9a-f]{5,12}|\$\{[A-Za-z_][A-Za-z0-9_]*\}|\$\([A-Za-z_][A-Za-z0-9_]*\))$`)
	filePath    = lazyRegexp(`^/(?:etc|var|run|home|root|tmp|opt|usr|mnt|secrets?|certs?|tls|pki|kubernetes)/[A-Za-z0-9_./-]*$|^/[A-Za-z0-9_./-]*\.(?:pem|key|crt|p12|jks|yaml|yml|json|conf|kubeconfig|txt)$`)
	wordOfName  = lazyRegexp(`^[a-z].*-[a-z]{2,20}(?:-|$)|^[a-z]{2,20}-`)
	smallNumber = lazyRegexp(`^[0-9]{1,6}$`)
)

// exempt returns p, or an empty span if the text of p cannot be a secret.
func (t *valueReader) exempt(v value, p span) span {
	text := t.textOf(p)
	if text == "" || len(text) <= maxKnown && (isNotSet(clean.Unescape(text)) || text[0] == '/' && filePath().MatchString(text)) {
		return span{}
	}
	name := t.name(v.key)
	switch v.key.class {
	case maybeKey:
		isID := shape.IsUUID(text[:min(len(text), 36)]) && strings.HasSuffix(strings.ToLower(name), "key")
		if !valueLooks(text) && !isID && !(isShouted(name) && len(text) <= maxKnown && judge(text) >= numbered) {
			return span{}
		}
	case loginKey:
		if cut := strings.IndexByte(text, '\\'); cut > 0 {
			text, p.to = text[:cut], p.from+cut
		}
		user, password, found := strings.Cut(text, ":")
		if !found || len(password) < 4 || strings.Contains(password, ":") {
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
	sh := shape.Measure(s)
	return sh.Upper > 0 && sh.Lower > 0 && sh.Digit > 0 && looksChosen(s) || sh.Length >= shape.MinAnnounced && sh.IsSecret(true)
}

// isObject reports whether p is the name of a Kubernetes object, for a key such as secret or v1.Secret.
func (t *valueReader) isObject(key string, p span) bool {
	text := t.textOf(p)
	namespace, name, found := strings.Cut(text, "/")
	key = key[strings.LastIndexByte(key, '.')+1:]
	isSecret := equalsAny(key, "secret", "secrets")
	switch {
	case len(text) > maxKnown:
		return false
	case refersToSecret(key):
		return isObjectName(text) && !shape.Measure(text).IsSecret(true) && !shape.IsUUID(text)
	case found && isLabel(namespace, labelBytes, 63) && isObjectName(name):
		return isSecret || isName(name)
	}
	return isSecret && isName(text)
}

// references are the endings of keys whose value is the name of a Secret.
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

// looksEncoded reports whether the value of the key auth looks like a secret.
func looksEncoded(s string) bool {
	return len(s) >= 8 && (strings.ContainsAny(s, digits) || looksChosen(s) || looksChosen(s[strings.IndexByte(s, ':')+1:]))
}
