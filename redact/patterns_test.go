package redact

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"crowsnest/redact/internal/keys"
	"crowsnest/redact/internal/marks"
)

// typicalLines have bytes about as often, and as near to each other, as logs of controllers.
const typicalLines = `E1120 10:00:00.001957       1 handler.go:159] "Failed to aggregate conditions" err="context deadline exceeded" ` +
	`controller="machinepool" controllerGroup="cluster.x-k8s.io" controllerKind="MachinePool" MachinePool="team-red/turin-md-0" namespace="team-red" name="turin" reconcileID="a9e9114c-42f3-4f04-a621-14bea3915eb7"` +
	`{"level":"error","ts":"2026-01-01T00:00:00.000Z","logger":"controller","msg":"Reconciler error","object":{"name":"m-1","namespace":"ns"},` +
	`"error":"admission webhook \"validate.example.com\" denied the request: timeout"}` +
	`2026-01-01T12:34:56.789Z	INFO	controllers.MachineDeployment	waiting for machines	{"v":0,"cluster":"default/prod","replicas":3}` +
	`level=warn ts=2026-01-01T12:34:56Z caller=queue.go:274 component=sender msg="Retrying request" attempts=4 ` +
	`err="Post \"https://api.example.com:6443/v1/items\": dial tcp 10.96.0.1:443: connect: connection refused"`

// The tables of the patterns are those in windows.bin. With UPDATE_SNAPSHOTS=1 the test writes
// them.
func TestWindowTables(t *testing.T) {
	alphabet, sets := quickKnown().alphabet, codeSets{known().hints}
	tokens := marks.NewWindows(alphabet, append(sets.tokens(tokenRules()), sets.longSigns()...), beforeTokens, typicalLines, 40)
	signs := marks.NewWindows(alphabet, sets.signs(), beforeSigns, typicalLines, 40)
	want := tokens.Tables() + signs.Tables()
	if os.Getenv("UPDATE_SNAPSHOTS") != "" {
		require.NoError(t, os.WriteFile("windows.bin", []byte(want), 0o600))
		return
	}
	require.True(t, want == windowTables, "a finder or its patterns have changed: run make compiled")
}

// codeSets make patterns of places at which a finder may find something. They may include
// other places, but miss none, unless the text has a percent sign.
type codeSets struct{ h *hints }

// of returns the codes of the bytes with a property, which bytes beyond ASCII have if NUL does.
func (c codeSets) of(is func(byte) bool) (s marks.Set) {
	for i := range utf8.RuneSelf {
		if is(byte(i)) {
			s |= 1 << (c.h.codes[i] >> 12)
		}
	}
	return s
}

// before is of, and the edge of the text.
func (c codeSets) before(is func(byte) bool) marks.Set { return c.of(is) | 1<<marks.Edge }

func (c codeSets) bytes(list string) marks.Set {
	return c.of(func(b byte) bool { return strings.IndexByte(list, b) >= 0 })
}

// each returns the code of each byte of a text.
func (c codeSets) each(s string) []marks.Set {
	all := make([]marks.Set, len(s))
	for i := range all {
		all[i] = 1 << (c.h.codes[s[i]] >> 12)
	}
	return all
}

// either returns the codes of a small letter and its capital.
func (c codeSets) either(letter byte) marks.Set {
	return c.of(func(b byte) bool { return isLetter(b) && b|0x20 == letter })
}

// tokens returns the patterns of prefixes, and of the byte before them.
func (c codeSets) tokens(rules []tokenRule) (all []marks.Pattern) {
	for _, r := range rules {
		p := anyPattern()
		if r.bound {
			p[0] = c.before(func(b byte) bool { return !isAlnum(b) && b != '_' || strings.IndexByte("nrt", b) >= 0 })
		}
		n := copy(p[1:], c.each(r.prefix))
		if r.in != nil {
			in := c.of(r.in)
			for k := range min(max(r.min, 1), len(p)-1-n) {
				p[1+n+k] = in
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
// them, of their own byte and of the next three.
func (c codeSets) signs() []marks.Pattern {
	return append(append(c.otherSigns(), c.keyEnds()...), c.oddKeys()...)
}

// sign returns a pattern. The last of the sets before is of the byte next to the sign.
func sign(own marks.Set, before []marks.Set, after ...marks.Set) marks.Pattern {
	p := anyPattern()
	copy(p[beforeSigns-len(before):], before)
	p[beforeSigns] = own
	copy(p[beforeSigns+1:], after)
	return p
}

type list = []marks.Set

// otherSigns returns the patterns of signs that do not follow a key.
func (c codeSets) otherSigns() []marks.Pattern {
	base36, quote, escape := c.of(isBase36), c.of(isQuote), c.bytes(`\`)
	letterOrDash := c.of(func(b byte) bool { return isLetter(b) || b == '-' })
	noKey := c.before(func(b byte) bool { return !isKeyByte(b) })
	keyEnd := c.before(func(b byte) bool { return isKeyByte(b) || isBlank(b) || isQuote(b) || b == '\\' || b == ',' })
	return []marks.Pattern{
		sign(c.bytes("="), list{c.of(isBase64)}, c.bytes("=")),                           // azureStorageKey
		sign(c.bytes(":"), nil, c.bytes("/"), c.bytes("/")),                              // userinfo
		sign(c.bytes("."), list{base36, base36, base36, base36}, base36, base36, base36), // bootstrapToken
		sign(c.bytes("@"), nil), // loginAt
		sign(c.bytes(">"), nil), // element, and -> after a key
		sign(c.bytes("-"), list{noKey}, letterOrDash),
		sign(c.bytes("-"), list{escape, c.of(isWordByte)}, letterOrDash),
		sign(quote, list{keyEnd, c.of(isBlank)}),
		sign(quote, list{c.of(isBlank) | escape, escape}),
	}
}

// longSigns returns the patterns of signs that are known by what follows them, and of the byte
// before them.
func (c codeSets) longSigns() []marks.Pattern {
	alnum, base36, digit, colon := c.of(isAlnum), c.of(isBase36), c.of(isDigit), c.bytes(":")
	return []marks.Pattern{
		{alnum, colon, base36, base36, base36, base36, base36, base36},                                         // rancherToken
		{alnum | c.bytes("*"), colon, digit, digit, digit, digit | colon, colon | c.of(isWordByte), marks.Any}, // passwordFile
	}
}

// keyEnds returns the patterns of separators after the end of a known key, also in quotes.
func (c codeSets) keyEnds() (all []marks.Pattern) {
	separators, quote, letter, other := c.bytes("=:"), c.of(isQuote), c.of(isLetter), c.before(func(b byte) bool { return !isLetter(b) })
	for _, word := range keys.Words() {
		word = word[max(0, len(word)-4):]
		before := list{marks.Any, letter, letter, letter}
		for k := range word {
			before[4-len(word)+k] = c.either(word[k])
		}
		if len(word) == 4 {
			before[0] |= other
		}
		all = append(all, sign(separators, before), sign(separators, append(before[1:4:4], quote)))
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
	add := func(before ...marks.Set) { all = append(all, sign(separators, before)) }
	add(joint, letter)
	add(other, c.bytes("pdqPDQ"), letter)
	add(gap|letter|1<<marks.Edge, gap|letter|1<<marks.Edge, gap&^quote)
	add(gap, quote)
	add(joint, letter, quote)
	add(other, c.bytes("dpqk"), quote)
	add(other, c.bytes("pdqPDQ"), letter, quote)
	// A joint may be before the last two letters of a key.
	for _, end := range c.pairsAtEnd() {
		add(joint, end[0], end[1])
		add(joint, end[0], end[1], quote)
	}
	return all
}

// pairsAtEnd returns the last two letters of the words that keys may end with, each last letter
// once: with all that may be before it.
func (c codeSets) pairsAtEnd() (all [][2]marks.Set) {
	before := map[byte]marks.Set{}
	for _, word := range keys.Words() {
		n := len(word)
		if n == 1 {
			before[word[0]] = c.of(isLetter)
		} else {
			before[word[n-1]] |= c.either(word[n-2])
		}
	}
	for _, last := range slices.Sorted(maps.Keys(before)) {
		all = append(all, [2]marks.Set{before[last], c.either(last)})
	}
	return all
}
