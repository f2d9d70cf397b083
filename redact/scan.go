package redact

import (
	"strings"

	"crowsnest/redact/internal/keys"
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
	depth      int  // of codings around the text
}

// start prepares a zero scanner.
func (sc *scanner) start(r *Redactor, s string, depth int) {
	sc.r, sc.tables, sc.depth = r, known(), depth
	sc.table = &sc.tables.keys
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
	s, h := sc.s, sc.tables.hints
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
	if sc.awsID {
		return hideKeysOfAWS(sc.out.String())
	}
	return sc.out.String()
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

// at looks for a secret around the byte at i.
func (sc *scanner) at(i int) span {
	switch sc.tables.classes[sc.s[i]] {
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
		return bootstrapToken(&sc.input, i)
	case classAt:
		return loginAt(&sc.input, i)
	}
	return span{}
}

// separator checks both sides of a byte that may separate a key from a value.
func (sc *scanner) separator(i int) span {
	s := sc.s
	switch s[i] {
	case '=':
		if p := azureStorageKey(&sc.input, i); !p.empty() {
			return p
		}
		return sc.keyValue(i, i+1)
	case ':':
		if strings.HasPrefix(s[i:], "://") {
			return sc.urls.userinfo(&sc.input, i)
		}
		if p := rancherToken(&sc.input, i); !p.empty() {
			return p
		}
		if isDigit(sc.byteAt(i + 1)) {
			if p := passwordFile(&sc.input, i); !p.empty() {
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
		if n := len("%3D"); equalsAny(sc.from(i, n), "%3D", "%3A") {
			return sc.keyValue(i, i+n)
		}
	}
	return span{}
}
