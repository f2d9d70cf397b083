package redact

import (
	"math/bits"
	"strings"
	"sync"

	"crowsnest/redact/internal/clean"
	"crowsnest/redact/internal/marks"
	"crowsnest/redact/internal/shape"
)

// quick finds out that a text has no secret. It calls the same finders as scan, but only at
// the places that vector instructions mark.
type quick struct {
	scanner
	text marks.Text
}

// kinds of bytes, above those of package marks.
const (
	kindControl uint8 = 1 << (iota + 4) // clean.Text may change the text
	kindEscape                          // clean.Unescape or clean.Entities may
	kindPlus
	kindPercent
)

// quickTables are the patterns of secrets. They are immutable.
type quickTables struct {
	alphabet      *marks.Alphabet
	tokens, signs *marks.Windows
}

var quickKnown = sync.OnceValue(func() *quickTables {
	h := known().hints
	a := marks.NewAlphabet(func(c byte) uint8 { return uint8(h.codes[c] >> 12) }, kindsOf)
	sets := codeSets{h}
	return &quickTables{
		alphabet: a,
		tokens:   marks.NewWindows(a, sets.tokens(tokenRules()), 1, typicalLines),
		signs:    marks.NewWindows(a, sets.signs(), 4, typicalLines),
	}
})

func kindsOf(c byte) (kinds uint8) {
	for kind, is := range map[uint8]bool{
		marks.Upper: isUpper(c), marks.Lower: isLower(c), marks.Digit: isDigit(c), marks.Word: shape.InWord(c),
		kindControl: c < ' ' || c == 0x7f, kindEscape: c == '\\' || c == '&', kindPlus: c == '+', kindPercent: c == '%',
	} {
		if is {
			kinds |= kind
		}
	}
	return kinds
}

// isHarmless reports whether String returns the text unchanged, or false if that takes too
// long to find out.
func (q *quick) isHarmless(r *Redactor, s string) bool {
	if len(s) > marks.MaxText {
		return false
	}
	defer q.forget()
	t := quickKnown()
	kinds, ascii := q.text.Read(t.alphabet, s)
	switch {
	case kinds&kindPercent != 0: // The digits of %20 may precede a key.
		return false
	case (kinds&kindControl != 0 || !ascii) && clean.Text(s, true) != s:
		return false
	case kinds&kindEscape != 0 && clean.Entities(clean.Unescape(s)) != s:
		return false
	case isKeyMaterial(s):
		return false
	}
	q.start(r, s, 0)
	return q.noTokens(q.text.Find(t.tokens, 0)) && q.noSigns(q.text.Find(t.signs, 1)) && q.text.Words(q.isOrdinary) &&
		(kinds&kindPlus == 0 || q.hideCoded(s) == s)
}

// forget removes the text from memory.
func (q *quick) forget() {
	q.scanner = scanner{}
	q.text.Clear()
}

// noTokens reports whether no token begins at one of the places.
func (q *quick) noTokens(places []uint64) bool {
	for b, set := range places {
		for ; set != 0; set &= set - 1 {
			if p := q.token(b*64 + bits.TrailingZeros64(set)); !p.empty() {
				return false
			}
		}
	}
	return true
}

// noSigns reports whether no sign at one of the places has a secret beside it.
func (q *quick) noSigns(places []uint64) bool {
	for b, set := range places {
		for ; set != 0; set &= set - 1 {
			if i := b*64 + bits.TrailingZeros64(set); q.isSign(i) && !q.at(i).empty() {
				return false
			}
		}
	}
	return true
}

// isSign reports whether scan looks at the byte at i.
func (q *quick) isSign(i int) bool {
	if i+1 >= len(q.s) {
		return false
	}
	h, before := q.tables.hints, uint32(codeEdge)
	if i > 0 {
		before = h.codes[q.s[i-1]]
	}
	return h.signs.has(h.window(before, q.s[i], q.s[i+1]))
}

// isOrdinary reports whether hideWords leaves a word.
func (q *quick) isOrdinary(from, to int) bool {
	if isDull(to-from, q.text.Count(from, to)) {
		return true
	}
	if shape.IsUUID(q.s[from:to]) && !mayAnnounceUUID(q.s[max(0, from-64):from]) {
		return true
	}
	first, end := q.secretWord(q.s, from, to)
	return first >= end
}

// isDull excludes most words and names: secretWord finds no secret in a word of n bytes with
// these counts.
func isDull(n int, c marks.Counts) bool {
	switch {
	case c.Digit == 0 && (c.Upper == 0 || c.Lower == 0):
		return true
	case n == uuidLength:
		return false
	case c.Upper == 0 || c.Lower == 0:
		return n < shape.MinPlain || c.Upper == 0 && c.Digit < 2 && n < shape.MinHex
	case c.Digit > 0:
		return false
	}
	// Words in which few capitals follow small letters, and which are no base64.
	return c.Upper <= 2 || c.Lower <= 2 || c.Upper+c.Lower == n && n < shape.MinPlain && 100*c.Changes < 18*n
}

const uuidLength = 36

// mayAnnounceUUID is a fast filter for announces of a uuid.
func mayAnnounceUUID(before string) bool {
	n := len(before)
	for n > 0 && strings.IndexByte("\"=: \\", before[n-1]) >= 0 {
		n--
	}
	if n < 2 || !isLetter(before[n-1]) || !isLetter(before[n-2]) {
		return true
	}
	switch [2]byte{before[n-2] | 0x20, before[n-1] | 0x20} {
	case [2]byte{'e', 'n'}, [2]byte{'e', 't'}, [2]byte{'r', 'd'}, [2]byte{'e', 'y'}, [2]byte{'a', 'l'}:
		return true // token, secret, password, apikey, credential
	}
	return false
}
