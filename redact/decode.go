package redact

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"crowsnest/redact/internal/clean"
)

// maxDepth is the maximum number of nested encodings that are decoded.
const maxDepth = 3

// leastCoded is the minimum length of a word that is decoded.
const leastCoded = 20

// inner returns a decoded text without its secrets. If secrets appear only after decoding the escapes in the text, it
// returns Mask.
func (sc *scanner) inner(s string) string {
	out, steps := sc.r.scan(s, sc.depth+1)
	sc.steps += steps + len(s)
	if u := clean.Entities(clean.Unescape(s)); out == s && u != s {
		u = clean.Text(u, true)
		hidden, steps := sc.r.scan(u, sc.depth+1)
		sc.steps += steps + len(u)
		if hidden != u {
			return Mask
		}
	}
	return out
}

// codedBytes are the bytes of words that may be percent-encoded. urlPart matches the text between two separators of a
// URL.
var (
	codedBytes = classWithout(" \t\n\r\"'`\\)]}")
	urlPart    = lazyRegexp(`[^?&=;,]+`)
)

// hideCoded hides the words of s that contain a percent-encoded secret. In each word it first checks the texts between
// the separators of a URL, and then the whole word.
func (sc *scanner) hideCoded(s string) string {
	if sc.depth >= maxDepth || strings.IndexByte(s, '%') < 0 && strings.IndexByte(s, '+') < 0 {
		return s
	}
	out, t := rewriter{s: s}, input{s: s}
	for from := 0; from < len(s); {
		to := t.run(from, codedBytes)
		if word := s[from:to]; strings.ContainsAny(word, "%+") && strings.ContainsAny(word, "%?&") {
			if hidden := sc.hideInURL(word); hidden != word {
				out.replace(span{from, to}, hidden)
			}
		}
		from = to + 1
	}
	sc.steps += t.steps
	return out.String()
}

func (sc *scanner) hideInURL(word string) string {
	if !sc.isCodedInURL(word) {
		return word
	}
	word = urlPart().ReplaceAllStringFunc(word, func(part string) string {
		if sc.isCodedInURL(part) {
			return Mask
		}
		return part
	})
	if rest, _ := decodePercent(word); sc.inner(rest) != rest {
		return Mask
	}
	return word
}

func (sc *scanner) isCodedInURL(s string) bool {
	text, coded := decodePercent(s)
	return coded && sc.inner(text) != text
}

// decodePercent decodes percent-encoding and reports whether there was any. It keeps invalid escapes.
func decodePercent(s string) (text string, coded bool) {
	if !strings.ContainsAny(s, "%+") {
		return s, false
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			c = unhex(s[i+1])<<4 | unhex(s[i+2])
			i += 2
			coded = true
		case c == '+':
			c, coded = ' ', true
		}
		b = append(b, c)
	}
	return clean.Text(string(b), true), coded
}

func unhex(c byte) byte {
	if isDigit(c) {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}

// isCodedSecret reports whether a word, or the text after its first slash, is the base64 encoding of a text with a
// secret.
func (sc *scanner) isCodedSecret(word string) bool {
	if sc.depth >= maxDepth {
		return false
	}
	text, is := decodeBase64(word)
	if !is {
		if cut := strings.IndexByte(word, '/'); cut >= 0 && len(word)-cut > leastCoded {
			text, is = decodeBase64(word[cut+1:])
		}
	}
	return is && sc.inner(text) != text
}

// decodeBase64 decodes a word and reports whether the result is text. Many ordinary words are valid base64, but do not
// decode to text.
func decodeBase64(word string) (text string, is bool) {
	if len(word) < leastCoded {
		return "", false
	}
	coding := base64.RawStdEncoding
	if strings.ContainsAny(word, "-_") {
		coding = base64.RawURLEncoding
	}
	if len(word)%4 == 1 {
		word = word[:len(word)-1]
	}
	// The start is decoded first, because most words do not decode to text.
	var head [15]byte
	if n, err := coding.Decode(head[:], []byte(word[:20])); err != nil || !isText(head[:n-2]) {
		return "", false
	}
	b, err := coding.DecodeString(word)
	if err != nil {
		return "", false
	}
	for n := 0; n < 3 && len(b) > 0 && !utf8.Valid(b); n++ {
		b = b[:len(b)-1]
	}
	return clean.Text(string(b), true), isText(b)
}

// isText reports whether b is valid UTF-8 without control characters. A NUL is accepted, because SASL separates names
// and passwords with NULs.
func isText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != 0 || c == 0x7f {
			return false
		}
	}
	return utf8.Valid(b)
}
