package redact

import (
	"strings"

	"crowsnest/redact/internal/shape"
)

// tokenRule finds secrets by their prefix.
type tokenRule struct {
	prefix string
	in     func(byte) bool // bytes that may follow
	min    int             // their minimum number
	// bound requires that no letter or digit precedes the prefix. Long prefixes do not
	// need it, so that no text before a token can hide it.
	bound bool
	// place, if set, decides instead of in and min.
	place place
}

// place identifies a method that examines the text after a prefix. It is not a func
// value, so that the scanner stays on the stack.
type place uint8

const (
	placeNone place = iota
	placeOpenAI
	placeVault
	placeAzure
	placeTerraform
	placeCluster
	placeRobot
	placePEM
	placeRest
	placeDataSource
	placeSecretObject
	placeTelegram
	placeTwilio
	placeAWS
	placeScheme
	placePath
	placeUserPassword
	placeAnnounced
	placeHash
	placeAuth
	placeOracle
	placeHook
	placeEcho
	placeQuoted
	placeMark
	placePersonal
	placeResend
	placePIN
	placePositional
	placeBytes
)

// place finds the secret that a rule announces at i.
func (sc *scanner) place(r *tokenRule, i int) span {
	switch r.place {
	case placeOpenAI:
		return sc.openAIKey(i)
	case placeVault:
		return sc.vaultToken(i)
	case placeAzure:
		return sc.azureSecret(i)
	case placeTerraform:
		return sc.terraformToken(i)
	case placeCluster:
		return sc.clusterToken(i)
	case placeRobot:
		return sc.robotAccount(i)
	case placePEM:
		return sc.privateKey(i)
	case placeRest:
		return span{i, len(sc.s)}
	case placeDataSource:
		return sc.dataSource(i)
	case placeSecretObject:
		return sc.secretObject(i)
	case placeTelegram:
		return sc.telegramToken(i)
	case placeTwilio:
		return sc.twilioKey(i)
	case placeAWS:
		return sc.awsKeyID(i)
	case placeScheme:
		return sc.scheme(i)
	case placeAnnounced:
		return sc.announced(i)
	case placeHash:
		return sc.passwordHash(i)
	case placeOracle:
		return sc.oracleLogin(i)
	case placeMark:
		return sc.hexBefore(i, len(r.prefix))
	case placePersonal:
		return sc.personalToken(i)
	case placeResend:
		return sc.resendKey(i)
	}
	return sc.behind(r, i+len(r.prefix))
}

// behind finds the secret that follows the prefix of a rule, which ends at i.
func (sc *scanner) behind(r *tokenRule, i int) span {
	switch r.place {
	case placePath:
		return sc.pathBehind(i)
	case placeUserPassword:
		return sc.secondArgument(i)
	case placeAuth:
		return sc.authCommand(i)
	case placeHook:
		return sc.hook(i)
	case placeEcho:
		return sc.echoed(i)
	case placeQuoted:
		return sc.quotedBehind(i)
	case placePIN:
		return sc.pin(i)
	case placePositional:
		return sc.positional(i, positional[r.prefix])
	case placeBytes:
		return sc.rest(i)
	}
	return span{}
}

// tokenTable finds the rules by the first bytes of their prefixes.
type tokenTable struct {
	index [1 << 12]uint16 // by the codes of the first two
	lists []tokenList
}

// tokenList contains the rules whose prefixes start with the same two bytes.
type tokenList struct {
	thirds  byteSet // which third bytes they have
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
		list.add(r.prefix)
	}
}

// add notes the third and fourth byte of a prefix; of a shorter one they are any.
func (l *tokenList) add(prefix string) {
	l.thirds.add(prefix, 2)
	l.fourths.add(prefix, 3)
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

// token looks for a secret that begins at i, or that a place at i announces.
func (sc *scanner) token(i int) span {
	if i+2 >= len(sc.s) {
		return span{}
	}
	table := &sc.r.tokens
	list := &table.lists[table.index[sc.r.hints.pair(sc.s[i], sc.s[i+1])]]
	if !list.thirds.has(sc.s[i+2]) || !list.fourths.has(sc.byteAt(i+3)) {
		return span{}
	}
	rules := list.rules
	for n := range rules {
		r := &rules[n]
		if !strings.HasPrefix(sc.s[i:], r.prefix) || r.bound && sc.afterWord(i) {
			continue
		}
		if r.place != placeNone {
			if p := sc.place(r, i); !p.empty() {
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

// run returns the end of the bytes from i on that are in a set.
func (sc *scanner) run(i int, in func(byte) bool) int {
	from := i
	for i < len(sc.s) && in(sc.s[i]) {
		i++
	}
	sc.steps += i - from
	return i
}

// runCoded is run, also over bytes of the set in the coding of URLs.
func (sc *scanner) runCoded(i int, in func(byte) bool) int {
	for i = sc.run(i, in); i+2 < len(sc.s) && sc.s[i] == '%' && isHex(sc.s[i+1]) && isHex(sc.s[i+2]); i = sc.run(i+3, in) {
		if !in(unhex(sc.s[i+1])<<4 | unhex(sc.s[i+2])) {
			break
		}
	}
	return i
}

func isWordByte(c byte) bool { return isAlnum(c) || c == '_' || c == '-' }
func isDotted(c byte) bool   { return isWordByte(c) || c == '.' }
func isBase64(c byte) bool {
	return isAlnum(c) || c == '+' || c == '/' || c == '=' || c == '_' || c == '-'
}
func isHex(c byte) bool     { return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }
func isBase36(c byte) bool  { return isDigit(c) || isLower(c) }
func isEncoded(c byte) bool { return isBase64(c) || c == '.' || c == '%' }

// openAIKey requires an upper-case letter or a long part, so that names of objects,
// which are in lower case, stay.
func (sc *scanner) openAIKey(i int) span {
	end := sc.run(i+3, isWordByte)
	text := sc.s[i+3 : end]
	if len(text) < 20 {
		return span{}
	}
	if len(text) > maxKnown || shape.IsUUID(text[max(0, len(text)-36):]) {
		return span{i, end}
	}
	for part := range strings.SplitSeq(text, "-") {
		if len(part) >= 32 {
			return span{i, end}
		}
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r >= 'A' && r <= 'Z' }) {
		return span{i, end}
	}
	return span{}
}

// vaultToken finds s. and 24 letters or digits. The name of a method in a stack
// trace has no digit and is followed by a bracket.
func (sc *scanner) vaultToken(i int) span {
	end := sc.run(i+2, isAlnum)
	if end-i-2 != 24 || strings.IndexByte(".)/", sc.byteAt(i-1)) >= 0 && i > 0 {
		return span{}
	}
	if sc.byteAt(end) == '(' && !strings.ContainsAny(sc.s[i+2:end], "0123456789") {
		return span{}
	}
	return span{i, end}
}

// azureSecret finds the mark within a client secret: three characters and a
// digit before it, 31 to 34 after it.
func (sc *scanner) azureSecret(i int) span {
	in := func(c byte) bool { return isDotted(c) || c == '~' }
	end := sc.run(i+2, in)
	if i < 4 || !isDigit(sc.s[i-1]) || end-i-2 < 30 {
		return span{}
	}
	from := i - 1
	for from > 0 && i-from < 4 && in(sc.s[from-1]) {
		from--
	}
	return span{from, end}
}

// terraformToken is a name, the mark .atlasv1. and the secret.
func (sc *scanner) terraformToken(i int) span {
	end := sc.run(i+len(".atlasv1."), isBase64)
	from := i
	for from > 0 && i-from < 20 && isAlnum(sc.s[from-1]) {
		from--
	}
	if end-i < 40 {
		return span{}
	}
	return span{from, end}
}

// clusterToken is the token with which nodes join k3s and RKE2: K10, a digest,
// two colons and credentials.
func (sc *scanner) clusterToken(i int) span {
	end := sc.run(i+3, isHex)
	if end-i-3 < 40 {
		return span{}
	}
	return span{i, sc.unquoted(end).to}
}

// robotAccount hides the secret of a Harbor robot account, not its name.
func (sc *scanner) robotAccount(i int) span {
	end := sc.run(i+len("robot$"), func(c byte) bool { return isDotted(c) || c == '+' || c == '$' })
	if sc.byteAt(end) != ':' {
		return span{}
	}
	at := end + 1
	for isBlank(sc.byteAt(at)) {
		at++
	}
	p := sc.unquoted(at)
	if at > end+1 && sc.r.isWord(sc.s[p.from:p.to]) {
		return span{}
	}
	return p
}

func (sc *scanner) twilioKey(i int) span {
	end := sc.run(i+2, isAlnum)
	if end-i != 34 || sc.run(i+2, isHex) != end {
		return span{}
	}
	return span{i, end}
}

// telegramToken is the number of a bot, a colon and 35 characters.
func (sc *scanner) telegramToken(i int) span {
	end := sc.run(i+1, isWordByte)
	if end-i-1 < 33 || i < 8 {
		return span{}
	}
	from := i
	for from > 0 && i-from < 12 && isDigit(sc.s[from-1]) {
		from--
	}
	if i-from < 8 {
		return span{}
	}
	return span{from, end}
}

func (sc *scanner) awsKeyID(i int) span {
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
		if len(m) > 40 || !strings.ContainsAny(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			return m
		}
		return Mask
	})
}
