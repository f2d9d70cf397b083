package redact

import (
	_ "embed" // windows.bin
	"math/bits"
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
	return &quickTables{
		alphabet: a,
		tokens:   marks.WindowsOf(windowTables[:marks.TablesSize], beforeTokens),
		signs:    marks.WindowsOf(windowTables[marks.TablesSize:], beforeSigns),
	}
})

// windowTables are the tables of tokens and of signs, which a test makes: it takes time to find
// good ones.
//
//go:embed windows.bin
var windowTables string

// How many bytes before a place are looked at.
const (
	beforeTokens = 1
	beforeSigns  = 4
)

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

// noTokens reports whether no token begins at one of the places, and no sign is there that has
// a secret beside it.
func (q *quick) noTokens(places []uint64) bool {
	for b, set := range places {
		for ; set != 0; set &= set - 1 {
			i := b*64 + bits.TrailingZeros64(set)
			if !q.token(i).empty() || q.s[i] == ':' && !q.at(i).empty() {
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
			if i := b*64 + bits.TrailingZeros64(set); !q.isInTime(i) && !q.at(i).empty() {
				return false
			}
		}
	}
	return true
}

// isInTime reports whether the byte at i is between hours and minutes behind a date, as in
// "1120 10:04:". No key is before it, and what follows is too short for a token. Without a date,
// "key 10" may be before it.
func (q *quick) isInTime(i int) bool {
	if i < 5 || i+3 >= len(q.s) {
		return false
	}
	t := q.s[i-5 : i+4]
	return t[5] == ':' && isDigit(t[0]) && isDigit(t[1]) && t[2] == ' ' && isDigit(t[3]) && isDigit(t[4]) &&
		isDigit(t[6]) && isDigit(t[7]) && t[8] == ':'
}

// isOrdinary reports whether hideWords leaves a word.
func (q *quick) isOrdinary(from, to int) bool {
	if shape.IsUUID(q.s[from:to]) {
		if !mayAnnounceUUID(q.s[max(0, from-64):from]) {
			return true
		}
	} else if q.isDull(from, to) {
		return true
	}
	first, end := q.secretWord(q.s, from, to)
	return first >= end
}

// isDull excludes most words and names: secretWord finds no secret in such a word, if it is no
// UUID.
func (q *quick) isDull(from, to int) bool {
	n, c := to-from, q.text.Count(from, to)
	switch {
	case c.Digit == 0 && (c.Upper == 0 || c.Lower == 0):
		return true
	case c.Upper == 0 || c.Lower == 0:
		if n < shape.MinPlain || c.Upper == 0 && c.Digit < 2 && n < shape.MinHex {
			return true
		}
		if c.Upper > 0 || c.Lower+c.Digit == n || n > marks.MaxOrder {
			return false
		}
		// Names such as edge-17/infra-2: none of their parts may be random.
		o := q.text.Order(from, to)
		return !o.Run && (10*c.Digit < n || 100*o.Shifts < 22*n)
	case c.Digit > 0:
		return false
	}
	// Words in which few capitals follow small letters, and which are no base64.
	return c.Upper <= 2 || c.Lower <= 2 || c.Upper+c.Lower == n && n < shape.MinPlain && 100*q.text.Order(from, to).Capitals < 18*n
}

// mayAnnounceUUID is a fast filter for announces of a uuid.
func mayAnnounceUUID(before string) bool {
	n := len(before)
	for n > 0 && isAround(before[n-1]) {
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

// isAround reports whether a byte may be between an announcement and its uuid.
func isAround(c byte) bool { return c == '"' || c == '=' || c == ':' || c == ' ' || c == '\\' }
