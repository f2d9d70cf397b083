package redact

import (
	"encoding/base64"
	"slices"
	"strings"
)

func isScheme(s string) bool {
	return equalsAny(s, "Bearer", "Basic", "Token", "Digest", "Negotiate", "NTLM", "AWS4-HMAC-SHA256", "GenieKey", "SSWS", "ApiKey")
}

// scheme finds "Bearer x", "Basic x" and "GenieKey x".
func scheme(t *input, i int) span {
	word := t.run(i, letters)
	name := t.s[i:word]
	if !equalsAny(name, "bearer", "basic", "geniekey") || t.afterWord(i) {
		return span{}
	}
	at := t.run(word, blanks)
	if strings.HasPrefix(t.s[at:], "%20") {
		at += len("%20")
	}
	if at == word {
		return span{}
	}
	p := t.unquoted(at)
	text := t.of(p)
	switch {
	case text == "", isNotSet(text), isWord(text), isChallenge(text):
		return span{}
	case strings.EqualFold(name, "basic") && !isBasicCredential(text):
		return span{}
	case len(text) < 20 && strings.Trim(text, lowers+"-.:") == "":
		return span{} // bearer-token-like words
	}
	return p
}

// isChallenge reports whether the text after Bearer is the challenge of a server.
func isChallenge(s string) bool {
	return slices.ContainsFunc([]string{"realm=", "scope=", "error=", "charset=", "authorization_uri="}, func(p string) bool { return strings.HasPrefix(s, p) })
}

func isBasicCredential(s string) bool {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		b, err = base64.RawStdEncoding.DecodeString(s)
	}
	if err == nil && strings.IndexByte(string(b), ':') >= 0 {
		return true
	}
	return len(s) >= 12 && strings.ContainsAny(s, digits) && strings.ContainsAny(s, capitals)
}
