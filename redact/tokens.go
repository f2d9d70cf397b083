package redact

import (
	"regexp"
	"slices"
	"strings"
)

// tokenRule finds a secret by its prefix: a row of rules.txt.
type tokenRule struct {
	prefix string
	head   uint32 // the first bytes of the prefix, at most 4, as a number
	mask   uint32 // the bits that head has
	where  string // what may be before the secret: any, start, apart
	in     class  // bytes that follow
	least  int    // their minimum number
	before class  // bytes before the prefix that belong to the secret
	most   int    // their maximum number
	like   []func() *regexp.Regexp
	unlike func() *regexp.Regexp
	value  bool // only what follows the prefix is the secret
	// find, if set, decides instead. It gets the start of the prefix, or its end if value is set.
	find finder
}

// finder returns the secret that a text announces at i, if there is one.
type finder func(sc *scanner, i int) span

// secret returns the secret whose prefix is at i, if it is one.
func (r *tokenRule) secret(sc *scanner, i int) span {
	to := i + len(r.prefix)
	if r.isShort(sc.s[to:]) {
		return span{}
	}
	from := sc.back(i, r.most, r.before)
	switch {
	case r.where != "any" && sc.afterWord(from), r.where == "apart" && strings.IndexByte(".)/-", sc.byteAt(from-1)) >= 0:
		return span{}
	case r.find != nil && r.value:
		return r.find(sc, to)
	case r.find != nil:
		return r.find(sc, i)
	}
	end := len(sc.s)
	if r.in != nil {
		end = sc.runCoded(to, r.in)
	}
	p := span{from, end}
	if end-to < r.least {
		return span{}
	}
	if text := sc.of(p); len(text) <= maxKnown || r.in == nil {
		text = text[:min(len(text), maxKnown)]
		for _, like := range r.like {
			m := like().FindStringSubmatchIndex(text)
			if m == nil {
				return span{}
			}
			if len(m) > 2 && m[2] >= 0 {
				p = span{from + m[2], from + m[3]}
			}
		}
		if r.unlike != nil && r.unlike().MatchString(text) {
			return span{}
		}
	}
	if r.value {
		p.from = to
	}
	return p
}

// isShort is a fast filter: true excludes text after a prefix in which too few bytes are of the class,
// which is the usual case. Bytes in the coding of URLs are longer.
func (r *tokenRule) isShort(rest string) bool {
	if r.find != nil || r.in == nil || r.least == 0 {
		return false
	}
	return len(rest) < r.least || !r.in[rest[r.least-1]] && strings.IndexByte(rest[:r.least], '%') < 0
}

// tokenTable finds the rules by a hash of the first three bytes of their prefixes.
type tokenTable struct {
	has   [1 << 11]uint64       // a bit for each hash
	rules [1 << 11][]*tokenRule // rules that share a slot of 64 hashes
	signs [256][]*tokenRule     // whose prefix is one byte
}

func newTokenTable(rules []tokenRule) *tokenTable {
	t := &tokenTable{}
	for i := range rules {
		r := &rules[i]
		for k := range 4 {
			r.head, r.mask = r.head<<8, r.mask<<8
			if k < len(r.prefix) {
				r.head, r.mask = r.head|uint32(r.prefix[k]), r.mask|0xff
			}
		}
		if len(r.prefix) == 1 {
			t.signs[r.prefix[0]] = append(t.signs[r.prefix[0]], r)
			continue
		}
		for third := range 256 {
			if len(r.prefix) > 2 && byte(third) != r.prefix[2] || len(r.prefix) == 2 && r.least > 0 && !r.in[third] {
				continue
			}
			h := hash(r.head | uint32(third)<<8)
			t.has[h/64] |= 1 << (h % 64)
			if list := &t.rules[h/64]; !slices.Contains(*list, r) {
				*list = append(*list, r)
			}
		}
	}
	return t
}

// hash returns an index of 17 bits for the upper three bytes of a word.
func hash(w uint32) uint32 { return w &^ 0xff * 0x9e3779b1 >> 15 }

// at returns the rules of which one may have a prefix that begins with the upper three bytes of a
// word.
func (t *tokenTable) at(w uint32) []*tokenRule {
	if h := hash(w); t.has[h/64]>>(h%64)&1 != 0 {
		return t.rules[h/64]
	}
	return nil
}

// token looks for a secret that one of the rules announces at i. The word is the four bytes there.
func (sc *scanner) token(rules []*tokenRule, i int, word uint32) span {
	for _, r := range rules {
		if word&r.mask == r.head && strings.HasPrefix(sc.s[i:], r.prefix) {
			if p := r.secret(sc, i); !p.empty() {
				return p
			}
		}
	}
	return span{}
}

// finders are the functions that rows "find" of rules.txt name.
var finders = map[string]finder{
	"awsKeyID": awsKeyID, "name": lookFrom, "secretObject": (*scanner).secretObject, "privateKey": onInput(privateKey),
	"scheme": onInput(scheme), "passwordInProse": onInput(passwordInProse), "secondArgument": onInput(secondArgument),
	"quotedAt": onInput((*input).quotedAt), "authCommand": onInput(authCommand),
	"insertedValue": (*scanner).insertedValue, "echoed": (*scanner).echoed,
	"code": func(sc *scanner, i int) span { return lookFrom(sc, i+len("pin ")) },
}

func awsKeyID(sc *scanner, i int) span {
	end := sc.run(i, alnums)
	if end-i != 20 || sc.run(i, capitalsAndDigits) != end {
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

// onInput returns a finder that needs only the text.
func onInput(find func(t *input, i int) span) finder {
	return func(sc *scanner, i int) span { return find(&sc.input, i) }
}
