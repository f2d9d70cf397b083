package redact

import (
	"slices"
	"strings"
)

// candidateTable finds the positions at which the scanner calls finders. Most positions of ordinary text are excluded by
// three neighbouring bytes.
type candidateTable struct {
	codes      [256]uint32           // code of each byte, in the position of the newest byte of a window
	starts     windows               // windows in which a prefix of a rule starts at the first byte
	candidates windows               // starts, and windows in which the second byte is a sign that may matter
	escaped    windows               // candidates for texts with percent-encoded bytes, after whose last digit a flag may begin
	rules      [1 << 11][]*tokenRule // rules by the slot of the first three bytes of their prefixes
	signs      [256][]*tokenRule     // rules whose prefix is a single byte
}

// windows is a set of windows. A window is the codes of three neighbouring bytes, of six bits each. The first byte has
// the lowest bits.
type windows [1 << 12]uint64

func (set *windows) has(w uint32) bool { return set[w>>6%(1<<12)]>>(w%64)&1 != 0 }
func (set *windows) add(w uint32)      { set[w>>6] |= 1 << (w % 64) }

// window returns the window of three bytes.
func (t *candidateTable) window(a, b, c byte) uint32 {
	return (t.codes[a]>>6|t.codes[b])>>6 | t.codes[c]
}

// slot returns the index of the rules that may match at the first byte of a window.
func slot(w uint32) uint32 { return w * 0x9e3779b1 >> 21 }

// signBytes are the bytes that the method sign handles.
const signBytes = "=:>%@.\"'-"

var isSign = newClass(signBytes)

func newCandidateTable(rules []tokenRule) *candidateTable {
	t := &candidateTable{}
	const others = signBytes + "_ \\$/{([~*" // bytes that occur in prefixes or beside signs; any further byte has the code 0
	for i, c := range []byte(others) {
		t.codes[c] = uint32(1+i) << 12
	}
	t.codes['\t'] = t.codes[' ']
	for c := range byte(26) {
		t.codes['a'+c] = uint32(len(others)+1+int(c)) << 12
		t.codes['A'+c] = uint32(len(others)+27+int(c)/2) << 12 // two letters share a code
	}
	for c := byte('0'); c <= '9'; c++ {
		t.codes[c] = 63 << 12
	}
	for i := range rules {
		t.addRule(&rules[i])
	}
	t.candidates, t.escaped = t.starts, t.starts
	for _, sign := range []byte(signBytes) {
		for pair := range 128 * 128 { // bytes that are not ASCII are treated like NUL
			before, after := byte(pair/128), byte(pair%128)
			w := t.window(before, sign, after)
			if mayMatter(before, sign, after, false) {
				t.candidates.add(w)
			}
			if mayMatter(before, sign, after, true) {
				t.escaped.add(w)
			}
		}
	}
	return t
}

func (t *candidateTable) addRule(r *tokenRule) {
	if len(r.prefix) == 1 {
		t.signs[r.prefix[0]] = append(t.signs[r.prefix[0]], r)
		return
	}
	for third := range 256 {
		if len(r.prefix) > 2 && byte(third) != r.prefix[2] || len(r.prefix) == 2 && r.minAfter > 0 && !r.in[third] {
			continue
		}
		w := t.window(r.prefix[0], r.prefix[1], byte(third))
		t.starts.add(w)
		if list := &t.rules[slot(w)]; !slices.Contains(*list, r) {
			*list = append(*list, r)
		}
	}
}

// mayMatter is a fast filter. If it returns false, sign finds no secret at the sign between these bytes. escaped means
// that the text may have percent-encoded bytes.
func mayMatter(before, sign, after byte, escaped bool) bool {
	switch sign {
	case '"', '\'':
		return isBlank(before) || before == '\\'
	case '-': // a letter that precedes a flag belongs to an escape, such as \n
		return isKeyByte(after) && (escaped || !isAlnum(before) && before != '_' || strings.IndexByte("nrt", before) >= 0)
	}
	return true
}

// next returns the first position from i on at which a finder may find a secret, or len(s) if there is none.
func (t *candidateTable) next(s string, i int, candidates *windows) int {
	if i >= len(s) {
		return len(s)
	}
	w := t.codes[s[i]]
	if i > 0 {
		w |= t.codes[s[i-1]] >> 6
	}
	for n := i + 1; n < len(s); n++ {
		w = w>>6 | t.codes[s[n]]
		if candidates.has(w) {
			if n-2 >= i && t.starts.has(w) {
				return n - 2
			}
			if isSign[s[n-1]] {
				return n - 1
			}
		}
	}
	if n := len(s); n-2 >= i && t.starts.has(w>>6) {
		return n - 2
	}
	return len(s)
}

// rulesAt returns the rules whose prefix may begin at i.
func (t *candidateTable) rulesAt(s string, i int) []*tokenRule {
	third := byte(0)
	if i+2 < len(s) {
		third = s[i+2]
	}
	w := t.window(s[i], s[i+1], third)
	if !t.starts.has(w) {
		return nil
	}
	return t.rules[slot(w)]
}
