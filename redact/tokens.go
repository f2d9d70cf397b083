package redact

import (
	"strings"

	"crowsnest/redact/internal/shape"
)

// tokenRule finds secrets by their prefix.
type tokenRule struct {
	prefix string
	in     func(byte) bool // bytes that may follow; with find, one of them follows
	min    int             // their minimum number
	// bound requires that no letter or digit precedes the prefix. Long prefixes do not
	// need it, so that no text before a token can hide it.
	bound bool
	// find, if set, decides instead of in and min. It gets the start of the prefix.
	find finder
}

// finder returns the secret that a text announces at i, if there is one.
type finder func(sc *scanner, i int) span

// tokenTable finds the rules by the first bytes of their prefixes.
type tokenTable struct {
	index [1 << 12]uint16 // by the codes of the first two
	lists []tokenList
}

// tokenList contains the rules whose prefixes start with the same two bytes.
type tokenList struct {
	thirds  byteSet // of the prefixes; all bytes for a shorter one
	fourths byteSet
	rules   []tokenRule
}

func (t *tokenTable) fill(rules []tokenRule, h *hints) {
	t.lists = make([]tokenList, 1, 256) // the first is of no pair
	for _, r := range rules {
		pair := h.pair(r.prefix[0], r.prefix[1])
		if t.index[pair] == 0 {
			t.index[pair] = uint16(len(t.lists))
			t.lists = append(t.lists, tokenList{})
		}
		list := &t.lists[t.index[pair]]
		list.rules = append(list.rules, r)
		list.thirds.add(r.prefix, 2)
		list.fourths.add(r.prefix, 3)
	}
}

type byteSet [4]uint64

func (b *byteSet) add(s string, at int) {
	if at >= len(s) {
		*b = byteSet{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}
		return
	}
	b[s[at]/64] |= 1 << (s[at] % 64)
}

func (b *byteSet) has(c byte) bool { return b[c/64]&(1<<(c%64)) != 0 }

// token looks for a secret that begins at i, or that a prefix at i announces.
func (sc *scanner) token(i int) span {
	if i+2 >= len(sc.s) {
		return span{}
	}
	table := &sc.tables.tokens
	list := &table.lists[table.index[sc.tables.hints.pair(sc.s[i], sc.s[i+1])]]
	if !list.thirds.has(sc.s[i+2]) || !list.fourths.has(sc.byteAt(i+3)) {
		return span{}
	}
	for n := range list.rules {
		r := &list.rules[n]
		if !strings.HasPrefix(sc.s[i:], r.prefix) || r.bound && sc.afterWord(i) {
			continue
		}
		if r.find != nil {
			if p := r.find(sc, i); !p.empty() {
				return p
			}
			continue
		}
		end := sc.runCoded(i+len(r.prefix), r.in)
		if end-i-len(r.prefix) >= r.min {
			return span{i, end}
		}
	}
	return span{}
}

// openAIKey requires an upper-case letter or a long part, so that names of objects,
// which are in lower case, stay.
func openAIKey(t *input, i int) span {
	end := t.run(i+3, isWordByte)
	text := t.s[i+3 : end]
	if len(text) < 20 {
		return span{}
	}
	if len(text) > maxKnown || shape.IsUUID(text[max(0, len(text)-36):]) || strings.ContainsAny(text, capitals) {
		return span{i, end}
	}
	for part := range strings.SplitSeq(text, "-") {
		if len(part) >= 32 {
			return span{i, end}
		}
	}
	return span{}
}

// vaultToken finds s. and 24 letters or digits. The name of a method in a stack
// trace has no digit and is followed by a bracket.
func vaultToken(t *input, i int) span {
	end := t.run(i+2, isAlnum)
	if end-i-2 != 24 || i > 0 && strings.IndexByte(".)/", t.s[i-1]) >= 0 {
		return span{}
	}
	if t.byteAt(end) == '(' && !strings.ContainsAny(t.s[i+2:end], digits) {
		return span{}
	}
	return span{i, end}
}

// azureSecret finds the mark within a client secret: three characters and a
// digit before it, 31 to 34 after it.
func azureSecret(t *input, i int) span {
	in := func(c byte) bool { return isDotted(c) || c == '~' }
	end := t.run(i+2, in)
	if i < 4 || !isDigit(t.s[i-1]) || end-i-2 < 30 {
		return span{}
	}
	return span{t.back(i, 4, in), end}
}

// terraformToken is a name, the mark .atlasv1. and the secret.
func terraformToken(t *input, i int) span {
	end := t.run(i+len(".atlasv1."), isBase64)
	if end-i < 40 {
		return span{}
	}
	return span{t.back(i, 20, isAlnum), end}
}

// clusterToken is the token with which nodes join k3s and RKE2: K10, a digest,
// two colons and credentials.
func clusterToken(t *input, i int) span {
	end := t.run(i+3, isHex)
	if end-i-3 < 40 {
		return span{}
	}
	return span{i, t.unquoted(end).to}
}

// robotAccount hides the secret of a Harbor robot account, not its name.
func robotAccount(t *input, i int) span {
	end := t.run(i+len("robot$"), func(c byte) bool { return isDotted(c) || c == '+' || c == '$' })
	if t.byteAt(end) != ':' {
		return span{}
	}
	at := t.run(end+1, isBlank)
	p := t.unquoted(at)
	if at > end+1 && isWord(t.of(p)) {
		return span{}
	}
	return p
}

func twilioKey(t *input, i int) span {
	end := t.run(i+2, isAlnum)
	if end-i != 34 || t.run(i+2, isHex) != end {
		return span{}
	}
	return span{i, end}
}

// telegramToken is the number of a bot, a colon and 35 characters.
func telegramToken(t *input, i int) span {
	end := t.run(i+1, isWordByte)
	from := t.back(i, 12, isDigit)
	if end-i-1 < 33 || i-from < 8 {
		return span{}
	}
	return span{from, end}
}

// personalToken is pat, 14 letters or digits, a dot and 64 hexadecimal digits.
func personalToken(t *input, i int) span {
	dot := t.run(i, isAlnum)
	if dot-i != 17 || t.byteAt(dot) != '.' {
		return span{}
	}
	end := t.run(dot+1, isHex)
	if end-dot < 64 {
		return span{}
	}
	return span{i, end}
}

// resendKey is re_, 8 letters or digits, _ and 24 of them, some of them capital.
func resendKey(t *input, i int) span {
	end := t.run(i, isWordByte)
	if end-i != 36 || t.s[i+11] != '_' || !strings.ContainsAny(t.s[i:end], capitals) {
		return span{}
	}
	return span{i, end}
}

// hexBefore returns a finder of the hexadecimal digits before a mark of n characters
// that ends a key, such as -us19.
func hexBefore(n int) func(t *input, i int) span {
	return func(t *input, i int) span {
		from, to := t.back(i, 40, isHex), t.run(i+n, isDigit)
		if i-from < shape.MinHex || t.s[i] == '-' && to == i+n {
			return span{}
		}
		return span{from, to}
	}
}

// bootstrapToken finds abcdef.0123456789abcdef around the dot at i, unless it
// is part of a longer name.
func bootstrapToken(t *input, i int) span {
	s, from, to := t.s, i-6, i+17
	if from < 0 || to > len(s) {
		return span{}
	}
	numbers := 0
	for j := from; j < to; j++ {
		switch {
		case j == i:
		case isDigit(s[j]):
			numbers++
		case !isLower(s[j]):
			return span{}
		}
	}
	if numbers == 22 || isKeyByte(t.byteAt(to)) && !(t.byteAt(to) == '.' && !isAlnum(t.byteAt(to+1))) {
		return span{}
	}
	if t.afterWord(from) || from > 0 && strings.IndexByte("-./", s[from-1]) >= 0 {
		return span{}
	}
	return span{from, to}
}

// rancherToken finds token-abcde:SECRET, also of kubeconfigs; the colon is at i.
func rancherToken(t *input, i int) span {
	const length = 54
	s, end := t.s, i+1+length
	if i == 0 || !isAlnum(s[i-1]) || end > len(s) || !isBase36(s[end-1]) {
		return span{}
	}
	if t.run(i+1, isBase36) != end || isKeyByte(t.byteAt(end)) && s[end] != '.' {
		return span{}
	}
	return span{i + 1, end}
}

// azureStorageKey finds 86 characters of base64 before the == at i. Digests of
// that length say that they are one.
func azureStorageKey(t *input, i int) span {
	const length = 86
	in := func(c byte) bool { return isAlnum(c) || c == '+' || c == '/' }
	if t.byteAt(i+1) != '=' {
		return span{}
	}
	from := t.back(i, length+1, in)
	if i-from != length || strings.HasSuffix(t.s[:from], "sha512-") {
		return span{}
	}
	return span{from, i + 2}
}

func awsKeyID(sc *scanner, i int) span {
	end := sc.run(i, isAlnum)
	if end-i != 20 || sc.run(i, func(c byte) bool { return isUpper(c) || isDigit(c) }) != end {
		return span{}
	}
	sc.awsID = true
	return span{i, end}
}

var secretOfAWS = lazily(`[A-Za-z0-9/+]{40,}`)

// hideKeysOfAWS hides the secret access key that has no mark of its own: 40
// characters beside an access key id.
func hideKeysOfAWS(s string) string {
	return secretOfAWS().ReplaceAllStringFunc(s, func(m string) string {
		if len(m) > 40 || !strings.ContainsAny(m, capitals) {
			return m
		}
		return Mask
	})
}
