package redact

import (
	"strings"

	"crowsnest/redact/internal/keys"
	"crowsnest/redact/internal/marks"
)

// typicalLines have bytes about as often as logs of controllers.
const typicalLines = `E1120 10:00:00.001957       1 handler.go:159] "Failed to aggregate conditions" err="context deadline exceeded" ` +
	`controller="machinepool" MachinePool="team-red/turin-md-0" namespace="team-red" name="turin" reconcileID="a9e9114c-42f3-4f04-a621-14bea3915eb7"` +
	`{"level":"error","ts":"2026-01-01T00:00:00.000Z","logger":"controller","msg":"Reconciler error","object":{"name":"m-1","namespace":"ns"},` +
	`"error":"admission webhook \"validate.example.com\" denied the request: timeout"}`

// codeSets make patterns of places at which a finder may find something. They may include
// other places, but miss none, unless the text has a percent sign.
type codeSets struct{ h *hints }

// of returns the codes of the bytes with a property.
func (c codeSets) of(is func(byte) bool) (s marks.Set) {
	for i := range 256 {
		if is(byte(i)) {
			s |= 1 << (c.h.codes[i] >> 12)
		}
	}
	return s
}

// before is of, and the edge of the text.
func (c codeSets) before(is func(byte) bool) marks.Set { return c.of(is) | 1<<marks.Edge }

// letter returns the codes of a letter in both cases.
func (c codeSets) letter(lower byte) marks.Set {
	return c.of(func(b byte) bool { return b|0x20 == lower && isLetter(b) })
}

func (c codeSets) bytes(list string) marks.Set {
	return c.of(func(b byte) bool { return strings.IndexByte(list, b) >= 0 })
}

// tokens returns the patterns of prefixes, and of the byte before them.
func (c codeSets) tokens(rules []tokenRule) (all []marks.Pattern) {
	for _, r := range rules {
		p := anyPattern()
		if r.bound {
			p[0] = c.before(func(b byte) bool { return !isAlnum(b) && b != '_' || strings.IndexByte("nrt", b) >= 0 })
		}
		for j := 1; j < len(p); j++ {
			switch k := j - 1; {
			case k < len(r.prefix):
				p[j] = c.bytes(r.prefix[k : k+1])
			case r.in != nil && (k == len(r.prefix) || k < len(r.prefix)+r.min):
				p[j] = c.of(r.in)
			}
		}
		all = append(all, p)
	}
	return all
}

func anyPattern() (p marks.Pattern) {
	for i := range p {
		p[i] = marks.Any
	}
	return p
}

// signs returns the patterns of the places that the method at looks at: of four bytes before
// them, of their own byte and of the next.
func (c codeSets) signs() []marks.Pattern {
	return append(append(c.otherSigns(), c.keyEnds()...), c.oddKeys()...)
}

// sign returns a pattern. The last of the sets before is of the byte next to the sign.
func sign(own, next marks.Set, before ...marks.Set) marks.Pattern {
	p := anyPattern()
	copy(p[4-len(before):], before)
	p[4], p[5] = own, next
	return p
}

// otherSigns returns the patterns of signs that do not follow a key.
func (c codeSets) otherSigns() []marks.Pattern {
	base36, quotes := c.of(isBase36), c.of(isQuote)
	letterOrDash := c.of(func(b byte) bool { return isLetter(b) || b == '-' })
	return []marks.Pattern{
		sign(c.bytes("="), c.bytes("="), c.of(isBase64)),                  // azureStorageKey
		sign(c.bytes(":"), c.bytes("/")),                                  // userinfo
		sign(c.bytes(":"), base36, c.of(isAlnum)),                         // rancherToken
		sign(c.bytes(":"), c.of(isDigit), c.before(isAlnum)|c.bytes("*")), // passwordFile
		sign(c.bytes("."), base36, base36, base36, base36, base36),        // bootstrapToken
		sign(c.bytes("@"), marks.Any),                                     // loginAt
		sign(c.bytes(">"), marks.Any),                                     // element, and -> after a key
		sign(c.bytes("-"), letterOrDash, c.before(func(b byte) bool { return !isKeyByte(b) })),
		sign(c.bytes("-"), letterOrDash, c.bytes(`\`), c.of(isWordByte)),
		sign(quotes, marks.Any, c.of(isBlank)),
		sign(quotes, marks.Any, c.of(func(b byte) bool { return isBlank(b) || b == '\\' }), c.bytes(`\`)),
	}
}

// keyEnds returns the patterns of separators after the end of a known key, also in quotes.
func (c codeSets) keyEnds() (all []marks.Pattern) {
	separators := c.bytes("=:")
	for _, word := range keys.Words() {
		before := [4]marks.Set{c.before(func(byte) bool { return true }), c.of(isLetter), c.of(isLetter), c.of(isLetter)}
		for k := range min(4, len(word)) {
			before[3-k] = c.letter(word[len(word)-1-k])
		}
		if len(word) > 3 {
			before[0] |= c.before(func(b byte) bool { return !isLetter(b) })
		}
		all = append(all,
			sign(separators, marks.Any, before[:]...),
			sign(separators, marks.Any, before[1], before[2], before[3], c.of(isQuote)))
	}
	return all
}

// oddKeys returns the patterns of separators before which are no three letters, and at which
// mayBeKey looks further back.
func (c codeSets) oddKeys() (all []marks.Pattern) {
	separators, letter, quote := c.bytes("=:"), c.of(isLetter), c.of(isQuote)
	joint := c.of(func(b byte) bool { return isKeyByte(b) && !isLetter(b) })
	gap := joint | c.of(isBlank) | quote | c.bytes(`\]`)
	other := c.before(func(b byte) bool { return !isLetter(b) })
	add := func(before ...marks.Set) { all = append(all, sign(separators, marks.Any, before...)) }
	add(joint, letter)
	add(joint, letter, letter)
	add(other, c.bytes("pdqPDQ"), letter)
	add(gap|letter|1<<marks.Edge, gap|letter|1<<marks.Edge, gap&^quote)
	add(gap, quote)
	add(other, letter, quote)
	add(other, letter, letter, quote)
	return all
}
