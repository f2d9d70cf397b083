package redact

import (
	"strings"

	"crowsnest/redact/internal/keys"
)

// scanner scans a text once. Each finder looks back a bounded distance, and forward
// only over text that it hides or that none of its other calls visits again, so
// the scan takes linear time.
type scanner struct {
	r *Redactor
	s string

	out  strings.Builder
	kept int // everything before is in out

	urlEnd     int  // end of the last URL
	urlAt      int  // its last @; before its start: none
	bracket    int  // position of the last ] that was searched for
	awsID      bool // an AWS access key id was seen
	kindKnown  bool // kindSecret is decided
	kindSecret bool // the text prints a Secret
	jwkKnown   bool // isJWK is decided
	isJWK      bool // the text has a JSON web key
	toolRead   int  // end of the text searched for programs
	toolName   string
	toolAt     int

	depth int // of codings around the text
	steps int // characters read by finders, besides the scan itself
}

// all returns the text without the secrets of all finders.
func (sc *scanner) all() string {
	if isKeyMaterial(sc.s) {
		return Mask
	}
	s := sc.scan()
	return sc.hideWords(sc.hideCoded(s))
}

// span is a part of the text to hide; it is empty if there is none.
type span struct{ from, to int }

func (p span) empty() bool { return p.from >= p.to }

// class is the role that a byte may have around a secret.
type class uint8

const (
	classSeparator class = iota + 1 // between a key and its value
	classQuote
	classDash
	classDot
	classAt
)

func newClasses() [256]class {
	return [256]class{
		'=': classSeparator, ':': classSeparator, '>': classSeparator, '%': classSeparator,
		'"': classQuote, '\'': classQuote, '-': classDash, '.': classDot, '@': classAt,
	}
}

// lookInside is how many bytes at the end of a hidden part are scanned again, for
// a secret that starts there and continues after it, as in "token: password: x".
const lookInside = 256

// scan returns the text with its secrets hidden.
func (sc *scanner) scan() string {
	s, h := sc.s, sc.r.hints
	w := h.after(codeEdge, s[0])
	for next := 1; next < len(s); next++ {
		w = h.after(w, s[next])
		if !h.any.has(w) {
			continue
		}
		i, goOn := next-2, 0
		if h.tokens.has(w) {
			goOn = sc.take(sc.token(i))
		}
		if h.signs.has(w) {
			p := span{}
			if next+1 < len(s) && h.tokens.has(h.after(w, s[next+1])) {
				p = sc.token(i + 1)
			}
			if p.empty() {
				p = sc.at(i + 1)
			}
			goOn = max(goOn, sc.take(p))
		}
		if goOn > i+1 {
			next = goOn + 1
			w = h.after(h.codes[s[goOn]], s[next])
		}
	}
	if sc.kept == 0 {
		return s
	}
	sc.out.WriteString(s[sc.kept:])
	if sc.awsID {
		return hideKeysOfAWS(sc.out.String())
	}
	return sc.out.String()
}

// take hides a part, unless it is empty or already hidden, and returns where the
// scan continues.
func (sc *scanner) take(p span) int {
	if p.empty() || p.to <= sc.kept || sc.s[p.from:p.to] == Mask {
		return 0
	}
	sc.steps += p.to - p.from
	sc.hide(p)
	return p.to - lookInside
}

// hide replaces a part by Mask. The part ends after all hidden parts and may start
// inside the last of them.
func (sc *scanner) hide(p span) {
	if p.from > sc.kept || sc.kept == 0 {
		sc.out.WriteString(sc.s[sc.kept:p.from])
		sc.out.WriteString(Mask)
	}
	sc.kept = p.to
}

// at looks for a secret around the byte at i.
func (sc *scanner) at(i int) span {
	switch sc.r.classes[sc.s[i]] {
	case classSeparator:
		return sc.separator(i)
	case classQuote:
		return sc.quoteAfterKey(i)
	case classDash:
		if i > 0 && isAlnum(sc.s[i-1]) && !sc.endsEscape(i) {
			return span{}
		}
		return sc.flag(i)
	case classDot:
		return sc.bootstrapToken(i)
	case classAt:
		return sc.login(i)
	}
	return span{}
}

// separator checks both sides of a byte that may separate a key from a value.
func (sc *scanner) separator(i int) span {
	s := sc.s
	switch s[i] {
	case '=':
		if p := sc.azureStorageKey(i); !p.empty() {
			return p
		}
		return sc.keyValue(i, i+1)
	case ':':
		if strings.HasPrefix(s[i:], "://") {
			return sc.userinfo(i)
		}
		if p := sc.rancherToken(i); !p.empty() {
			return p
		}
		if isDigit(sc.byteAt(i + 1)) {
			if p := sc.passwordFile(i); !p.empty() {
				return p
			}
		}
		return sc.keyValue(i, i+1)
	case '>':
		if i > 0 && s[i-1] == '-' && sc.keyBefore(i-1).class == keys.Strong { // Scala's password -> x
			return sc.keyValue(i-1, i+1)
		}
		return sc.element(i)
	case '%':
		if n := len("%3D"); len(s) >= i+n && (strings.EqualFold(s[i:i+n], "%3D") || strings.EqualFold(s[i:i+n], "%3A")) {
			return sc.keyValue(i, i+n)
		}
	}
	return span{}
}

func isSpace(c byte) bool  { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
func isBlank(c byte) bool  { return c == ' ' || c == '\t' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isUpper(c byte) bool  { return c >= 'A' && c <= 'Z' }
func isLower(c byte) bool  { return c >= 'a' && c <= 'z' }
func isLetter(c byte) bool { return isUpper(c) || isLower(c) }
func isAlnum(c byte) bool  { return isLetter(c) || isDigit(c) }
func isQuote(c byte) bool  { return c == '"' || c == '\'' || c == '`' }

// byteAt returns the byte at i, or 0 outside.
func (sc *scanner) byteAt(i int) byte {
	if i < 0 || i >= len(sc.s) {
		return 0
	}
	return sc.s[i]
}

// endsEscape reports whether the letter before i may belong to an escape.
func (sc *scanner) endsEscape(i int) bool {
	return i >= 2 && (sc.s[i-2] == '\\' || i >= 3 && sc.s[i-3] == '%')
}

// afterWord reports whether the byte before i belongs to the same word. The
// letter of an escape such as \n, and the digits of %20, do not.
func (sc *scanner) afterWord(i int) bool {
	s := sc.s
	switch {
	case i == 0 || !isAlnum(s[i-1]) && s[i-1] != '_':
		return false
	case i >= 2 && s[i-2] == '\\' && strings.IndexByte("nrt", s[i-1]) >= 0:
		return false
	case i >= 3 && s[i-3] == '%':
		return false
	}
	return true
}
