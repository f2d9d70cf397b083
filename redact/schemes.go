package redact

import (
	"encoding/base64"
	"strings"
)

func isScheme(s string) bool {
	for _, scheme := range [...]string{"Bearer", "Basic", "Token", "Digest", "Negotiate", "NTLM", "AWS4-HMAC-SHA256", "GenieKey", "SSWS", "ApiKey"} {
		if strings.EqualFold(s, scheme) {
			return true
		}
	}
	return false
}

// scheme finds "Bearer x", "Basic x" and "GenieKey x".
func (sc *scanner) scheme(i int) span {
	s := sc.s
	word := sc.run(i, isLetter)
	name := strings.ToLower(s[i:min(word, i+16)])
	if name != "bearer" && name != "basic" && name != "geniekey" || sc.afterWord(i) {
		return span{}
	}
	at := word
	for at < len(s) && isBlank(s[at]) {
		at++
	}
	if strings.HasPrefix(s[at:], "%20") {
		at += 3
	}
	if at == word {
		return span{}
	}
	p := sc.unquoted(at)
	text := s[p.from:p.to]
	switch {
	case text == "", isNotSet(text), sc.r.isWord(text), isChallenge(text):
		return span{}
	case name == "basic" && !isBasicCredential(text):
		return span{}
	case len(text) < 20 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz-.:") == "":
		return span{} // bearer-token-like words
	}
	return p
}

// isChallenge reports whether what follows Bearer is what a server asks for.
func isChallenge(s string) bool {
	for _, p := range [...]string{"realm=", "scope=", "error=", "charset=", "authorization_uri="} {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

func isBasicCredential(s string) bool {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		b, err = base64.RawStdEncoding.DecodeString(s)
	}
	if err == nil && strings.IndexByte(string(b), ':') >= 0 {
		return true
	}
	return len(s) >= 12 && strings.ContainsAny(s, "0123456789") && strings.ContainsAny(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
}
