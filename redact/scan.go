package redact

import (
	"strings"
)

// scanner scans a text once. Each finder looks back a bounded distance, and forward
// only over text that it hides or that none of its other calls visits again, so
// the scan takes linear time.
type scanner struct {
	commandReader
	r          *Redactor
	tables     *tables
	out        rewriter
	urls       urls
	awsID      bool // an AWS access key id was seen
	kindSecret memo // the text prints a Secret
	depth      int  // number of encodings around the text
}

// start prepares a zero scanner.
func (sc *scanner) start(r *Redactor, s string, depth int) {
	sc.r, sc.tables, sc.depth = r, known(), depth
	sc.table = sc.tables.keys
	sc.s, sc.out.s = s, s
}

// all returns the text without the secrets of all finders.
func (sc *scanner) all() string {
	if isKeyMaterial(sc.s) {
		return Mask
	}
	s := sc.scan()
	return sc.hideWords(sc.hideCoded(s))
}

// lookInside is how many bytes at the end of a hidden part are scanned again, for
// a secret that starts there and continues after it, as in "token: password: x".
const lookInside = 256

// scan returns the text with its secrets hidden.
func (sc *scanner) scan() string {
	s, tokens := sc.s, sc.tables.tokens
	w := sc.word4(-1)
	for i := 0; i+1 < len(s); i++ {
		w = w<<8 | uint32(sc.byteAt(i+3))
		rules := tokens.at(w)
		if rules == nil && !isSign[s[i]] {
			continue
		}
		p := sc.token(rules, i, w)
		if p.empty() && isSign[s[i]] {
			p = sc.sign(i)
		}
		if goOn := sc.take(p); goOn > i {
			i = goOn - 1
			w = sc.word4(i)
		}
	}
	if sc.awsID {
		return hideKeysOfAWS(sc.out.String())
	}
	return sc.out.String()
}

// word4 returns the four bytes from i on as a number.
func (t *input) word4(i int) uint32 {
	return uint32(t.byteAt(i))<<24 | uint32(t.byteAt(i+1))<<16 | uint32(t.byteAt(i+2))<<8 | uint32(t.byteAt(i+3))
}

// take hides a part, unless it is empty or already hidden, and returns where the scan
// continues. The part ends after all hidden parts and may start inside the last of them.
func (sc *scanner) take(p span) int {
	if p.empty() || p.to <= sc.out.kept || sc.of(p) == Mask {
		return 0
	}
	sc.steps += p.to - p.from
	if p.from > sc.out.kept || sc.out.kept == 0 {
		sc.out.replace(p, Mask)
	}
	sc.out.kept = p.to
	return p.to - lookInside
}

// isSign has the bytes that method sign knows.
var isSign = func() (set [256]bool) {
	for _, c := range []byte("=:>%-@.\"'") {
		set[c] = true
	}
	return set
}()

// sign looks for a secret around the sign at i.
func (sc *scanner) sign(i int) span {
	s := sc.s
	switch s[i] {
	case '=':
		return sc.keyValue(i, i+1)
	case ':':
		if strings.HasPrefix(s[i:], "://") {
			return sc.urls.userinfo(&sc.input, i)
		}
		if p := sc.token(sc.tables.tokens.signs[':'], i, ':'<<24); !p.empty() {
			return p
		}
		if isDigit(sc.byteAt(i + 1)) {
			if p := passwordFile(&sc.input, i); !p.empty() {
				return p
			}
		}
		return sc.keyValue(i, i+1)
	case '>':
		if i > 0 && s[i-1] == '-' && sc.keyBefore(i-1).class == strongKey { // Scala's password -> x
			return sc.keyValue(i-1, i+1)
		}
		return sc.element(i)
	case '%':
		if n := len("%3D"); equalsAny(sc.from(i, n), "%3D", "%3A") {
			return sc.keyValue(i, i+n)
		}
	case '"', '\'':
		if c := sc.byteAt(i - 1); isBlank(c) || c == '\\' {
			return sc.quoteAfterKey(i)
		}
	case '-':
		if i == 0 || !isAlnum(s[i-1]) || sc.endsEscape(i) {
			return sc.flag(i)
		}
	case '.':
		return sc.token(sc.tables.tokens.signs['.'], i, '.'<<24)
	case '@':
		return loginAt(&sc.input, i)
	}
	return span{}
}
