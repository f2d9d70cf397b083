package redact

import (
	"strings"
)

// scanner scans a text once. Each finder looks back a limited distance. It looks ahead only over text that it hides, or
// that none of its other calls reads again. Therefore the scan takes linear time.
type scanner struct {
	commandReader
	r          *Redactor
	tables     *tables
	out        rewriter
	urls       urls
	kindSecret memo // whether the text is the output of an object of kind Secret
	depth      int  // number of encodings that were removed from the text
}

// start prepares a scanner, which must have its zero value.
func (sc *scanner) start(r *Redactor, s string, depth int) {
	sc.r, sc.tables, sc.depth = r, builtInTables(), depth
	sc.table = sc.tables.keys
	sc.s, sc.out.s = s, s
}

// all returns the text without the secrets that any of the finders finds.
func (sc *scanner) all() string {
	if isKeyMaterial(sc.s) {
		return Mask
	}
	s := sc.scan()
	return sc.hideWords(sc.hideCoded(s))
}

// lookInside is the number of bytes at the end of a hidden section that are scanned again. Another secret may start
// there and continue after the section, as in "token: password: x".
const lookInside = 256

// scan returns the text without the secrets that the finders for punctuation and for prefixes of tokens find.
func (sc *scanner) scan() string {
	s, t := sc.s, sc.tables.candidates
	candidates := &t.candidates
	if strings.IndexByte(s, '%') >= 0 {
		candidates = &t.escaped
	}
	for i := t.next(s, 0, candidates); i+1 < len(s); i = t.next(s, i+1, candidates) {
		p := sc.token(t.rulesAt(s, i), i)
		if isSign[s[i]] && p.empty() {
			p = sc.sign(i)
		}
		if goOn := sc.take(p); goOn > i {
			i = goOn - 1
		}
	}
	return sc.out.String()
}

// take hides a section and returns the position at which the scan continues. It returns 0 if the section is empty or
// already hidden. The section must end after all hidden sections, and may start inside the last one.
func (sc *scanner) take(p span) int {
	if p.empty() || p.to <= sc.out.copied || sc.textOf(p) == Mask {
		return 0
	}
	sc.steps += p.to - p.from
	if p.from > sc.out.copied || sc.out.copied == 0 {
		sc.out.replace(p, Mask)
	}
	sc.out.copied = p.to
	return p.to - lookInside
}

// sign looks for a secret next to the punctuation character at i.
func (sc *scanner) sign(i int) span {
	s := sc.s
	switch s[i] {
	case '=':
		return sc.keyValue(i, i+1)
	case ':':
		if strings.HasPrefix(s[i:], "://") {
			return sc.urls.userinfo(&sc.input, i)
		}
		if p := sc.token(sc.tables.candidates.signs[':'], i); !p.empty() {
			return p
		}
		if isDigit(sc.byteAt(i + 1)) {
			if p := passwordFile(&sc.input, i); !p.empty() {
				return p
			}
		}
		return sc.keyValue(i, i+1)
	case '>':
		if i > 0 && s[i-1] == '-' && sc.keyBefore(i-1).class == strongKey { // an assignment in Scala, as in password -> x
			return sc.keyValue(i-1, i+1)
		}
		return sc.element(i)
	case '%':
		if n := len("%3D"); equalsAny(sc.textFrom(i, n), "%3D", "%3A") {
			return sc.keyValue(i, i+n)
		}
	case '"', '\'':
		if c := sc.byteAt(i - 1); isBlank(c) || c == '\\' {
			return sc.quoteAfterKey(i)
		}
	case '-':
		if !sc.afterWord(i) {
			return sc.flag(i)
		}
	case '.':
		return sc.token(sc.tables.candidates.signs['.'], i)
	case '@':
		return loginAt(&sc.input, i)
	}
	return span{}
}
