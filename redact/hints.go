package redact

import "unicode/utf8"

// hints are the sets of three neighbouring bytes at which the scanner looks
// closer. Each byte has a code of six bits, so the tables fit into the CPU cache.
type hints struct {
	codes  [256]uint32 // in the upper six of eighteen bits
	any    windows     // of the two below
	tokens windows     // a token may begin at the first of the three bytes
	signs  windows     // the second has a class
}

// windows is a set of three codes.
type windows [1 << (18 - 6)]uint64

func (t *windows) has(w uint32) bool { return t[w>>6&(1<<12-1)]&(1<<(w&63)) != 0 }
func (t *windows) add(w uint32)      { t[w>>6] |= 1 << (w & 63) }

// after returns the window that follows w when c is the next byte.
func (h *hints) after(w uint32, c byte) uint32 { return w>>6 | h.codes[c] }

// pair is the codes of two bytes, twelve bits.
func (h *hints) pair(a, b byte) uint32 { return (h.codes[a]>>6 | h.codes[b]) >> 6 & (1<<12 - 1) }

const codeEdge = 63 << 12 // before the text

func newHints(rules []tokenRule) *hints {
	h := &hints{}
	signs := ".-_@:=>%$ {(/[~]*\"\\&"
	for i := range h.codes {
		c := byte(i)
		switch {
		case isLower(c):
			h.codes[c] = uint32(1+c-'a') << 12
		case isUpper(c): // two letters share a code
			h.codes[c] = uint32(27+(c-'A')/2) << 12
		case isDigit(c):
			h.codes[c] = 40 << 12
		}
	}
	for i := range len(signs) {
		h.codes[signs[i]] = uint32(41+i) << 12
	}
	h.codes['\''], h.codes['`'], h.codes['\t'] = h.codes['"'], h.codes['"'], h.codes[' ']
	for _, r := range rules {
		for third := range 256 {
			if len(r.prefix) == 2 && (r.in == nil || r.in(byte(third))) || len(r.prefix) > 2 && byte(third) == r.prefix[2] {
				h.tokens.add(h.window(h.codes[r.prefix[0]], r.prefix[1], byte(third)))
			}
		}
	}
	h.setClasses()
	for i := range h.any {
		h.any[i] = h.tokens[i] | h.signs[i]
	}
	return h
}

func (h *hints) window(first uint32, second, third byte) uint32 {
	return h.after(h.after(first, second), third)
}

// setClasses notes between which neighbours a byte that has a class can matter. Bytes beyond
// ASCII are like NUL: they have its code, and no property.
func (h *hints) setClasses() {
	for cur, class := range newClasses() {
		for next := 0; class != 0 && next < utf8.RuneSelf; next++ {
			for before := range utf8.RuneSelf {
				if mayMatter(class, byte(before), byte(cur), byte(next)) {
					h.signs.add(h.window(h.codes[before], byte(cur), byte(next)))
				}
			}
			if mayMatter(class, ' ', byte(cur), byte(next)) {
				h.signs.add(h.window(codeEdge, byte(cur), byte(next)))
			}
		}
	}
}

// mayMatter reports whether [scanner.at] can find a secret around a byte with a
// class and between these neighbours.
func mayMatter(class class, before, cur, next byte) bool {
	switch class {
	case classQuote:
		return isBlank(before) || before == '\\'
	case classDash:
		return next == '-' || isLetter(next)
	case classDot:
		return isBase36(before) && isBase36(next)
	case classAt:
		return isDotted(next)
	}
	switch cur {
	case '%':
		return isDigit(next)
	case '>':
		return isKeyByte(before) || isQuote(before) || isBlank(before)
	}
	return isKeyByte(before) || isQuote(before) || isBlank(before) || before == ']' || before == '*' || next == '/' || next == '='
}
