package redact

import (
	"slices"
	"strings"

	"crowsnest/redact/internal/shape"
)

// minPiece is the minimum length of a piece of a word between punctuation.
const minPiece = 4

// hideWords hides words that are base64 of a text with a secret, and words that
// look random: upper-case and lower-case letters mixed with digits. It hides
// hexadecimal digests, uuids and shorter words only if the text before them
// announces a secret. Outside of long words it reads only every 16th byte.
func (sc *scanner) hideWords(s string) string {
	out := rewriter{s: s}
	for i := 0; i+shape.MinAnnounced <= len(s); {
		j, seen := i+shape.MinAnnounced-1, uint8(0)
		for j >= i && shape.InWord(s[j]) {
			seen |= shape.Sort(s[j])
			j--
		}
		if j >= i {
			i = j + 1
			continue
		}
		end := i + shape.MinAnnounced
		for end < len(s) && shape.InWord(s[end]) {
			seen |= shape.Sort(s[end])
			end++
		}
		sc.steps += end - i
		from, to := 0, 0
		mixed := seen&(shape.Upper|shape.Lower) == shape.Upper|shape.Lower
		if mixed || seen&shape.Digit != 0 && end-i >= shape.MinPlain {
			from, to = sc.secretWord(s, i, end)
		}
		if to > from {
			from, to = widen(s, from, to)
			out.replace(span{max(from, out.kept), to}, Mask)
		}
		i = max(end, to)
	}
	return out.String()
}

// widen includes the neighbours of a random word that belong to it: all after a dot and
// the like, and before one those that are not words.
func widen(s string, from, to int) (int, int) {
	for to < len(s) && s[to] == '=' {
		to++
	}
	for n := 0; n < 3 && to+1 < len(s) && strings.IndexByte(".!:~", s[to]) >= 0 && isAlnum(s[to+1]); n++ {
		for to++; to < len(s) && shape.InWord(s[to]); {
			to++
		}
	}
	for n := 0; n < 3 && from > 1 && strings.IndexByte(".!:~", s[from-1]) >= 0; n++ {
		at := from - 1
		for at > 0 && from-at < maxKey && shape.InWord(s[at-1]) {
			at--
		}
		if sh := shape.Of(s[at : from-1]); (sh.Digit == 0 || sh.Upper == 0) && (sh.Upper < 2 || sh.Lower < 2) {
			break
		}
		from = at
	}
	return from, to
}

// secretWord returns the part of the word s[from:to] that is a secret, or none.
func (sc *scanner) secretWord(s string, from, to int) (int, int) {
	before := s[max(0, from-64):from]
	if shape.IsUUID(s[from:to]) {
		if announces(before, true) {
			return from, to
		}
		return 0, 0
	}
	whole := shape.Of(s[from:to])
	if !whole.Suspect() {
		return 0, 0
	}
	if whole.Upper > 0 && whole.Lower > 0 && sc.isCodedSecret(s[from:to]) {
		return from, to
	}
	isSecret := func(sh shape.Shape) bool {
		return sh.IsSecret(true) && (sh.IsSecret(false) || announces(before, false) || dotted(s, from, to, whole))
	}
	if isSecret(whole) {
		if isHarmless(before, s[from:to]) {
			return 0, 0
		}
		return from, to
	}
	least := minPiece
	if whole.Upper < 2 || whole.Lower < 2 {
		least = shape.MinPlain
	}
	for at := from; at < to; { // pieces between slashes and signs
		end := at
		for end < to && isAlnum(s[end]) {
			end++
		}
		if end-at < least {
			at = end + 1
			continue
		}
		behindName := end-at >= shape.MinHex && at > from+1 && s[at-1] == '_'
		if p := shape.Of(s[at:end]); isSecret(p) || behindName && (p.Hex == p.Length || p.IsSecret(true)) {
			if isHarmless(before, s[at:end]) {
				return 0, 0
			}
			return at, to
		}
		at = end + 1
	}
	return 0, 0
}

// dotted reports whether a word that looks random is followed by a dot and another long
// word, or follows a long number and a colon, like the parts of a token.
func dotted(s string, from, to int, sh shape.Shape) bool {
	if to < len(s) && s[to] == '.' && sh.Upper > 1 && sh.Lower > 1 && (sh.Digit > 0 || sh.Changes*4 > sh.Length) {
		end := to + 1
		for end < len(s) && isWordByte(s[end]) {
			end++
		}
		return end-to > shape.MinAnnounced && strings.ContainsAny(s[to:end], digits)
	}
	n := 2
	for n <= from && s[from-1] == ':' && isDigit(s[from-n]) {
		n++
	}
	return n > 12
}

// Words before a random word, in lower case. An announcement says that it is a secret,
// links may be between the two, and harmless words say that it is not.
var (
	announcements, links, keyOf = words("announcement"), words("link"), words("keyOf")
	identified, harmless        = words("identified"), words("harmless")
	publicStarts                = words("publicStart") // prefixes of digests and of the names of Calico's IP sets
)

// announces reports whether the end of text says that a secret follows. A uuid
// must follow the word itself.
func announces(text string, uuid bool) bool {
	for range 4 {
		word, rest := lastWordOf(text)
		switch w := word.String(); {
		case uuid:
			return slices.Contains([]string{"token", "secret", "password", "apikey", "credential"}, w) || w == "" && endsWithMask(text)
		case w == "":
			return endsWithMask(text)
		case announcements[w], strings.HasSuffix(w, "_token"), strings.HasSuffix(w, "_secret"), strings.HasSuffix(w, "_key"):
			return true
		case w == "key":
			before, _ := lastWordOf(rest)
			return keyOf[before.String()]
		case w == "code":
			before, _ := lastWordOf(rest)
			return before.String() == "authorization" || before.String() == "auth"
		case !links[w] && !strings.HasSuffix(strings.TrimRight(rest, "\"'\\ "), "{"):
			return false
		}
		text = rest
	}
	return false
}

func endsWithMask(text string) bool {
	return strings.HasSuffix(strings.TrimRight(text, ` "'\:=(`), Mask)
}

// foldedWord is a word in lower case that needs no allocation.
type foldedWord struct {
	letters [24]byte
	n       int
}

// String returns the word, or "" if it is longer than any that is known.
func (w *foldedWord) String() string { return string(w.letters[:w.n]) }

// lastWordOf returns the last word of a text and the text before it.
func lastWordOf(text string) (word foldedWord, rest string) {
	to := len(text)
	for to > 0 && strings.IndexByte(" \t\"'`\\:=([{,", text[to-1]) >= 0 {
		to--
	}
	from := to
	for from > 0 && (isAlnum(text[from-1]) || text[from-1] == '_' || text[from-1] == '-') {
		from--
	}
	if from < to && to-from <= len(word.letters) {
		for i := from; i < to; i++ {
			word.letters[i-from] = text[i]
			if isUpper(text[i]) {
				word.letters[i-from] |= 0x20
			}
		}
		word.n = to - from
	}
	return word, text[:from]
}

// isHarmless reports whether a random word is public: a fingerprint, a public key, a
// certificate, or encoded text, which has been scanned already. before is the text
// before the word.
func isHarmless(before, word string) bool {
	last, rest := lastWordOf(before)
	if harmless[last.String()] {
		return true
	}
	second, _ := lastWordOf(rest)
	switch last.String() {
	case "id":
		return identified[second.String()]
	case "key":
		return second.String() == "public"
	}
	if strings.HasPrefix(word, "MII") && len(word) > 7 && word[5:7] == "CC" || strings.HasPrefix(word, "AAAA") && strings.Contains(before, "ssh-") {
		return true
	}
	for start := range publicStarts {
		if strings.HasPrefix(word, start) {
			return true
		}
	}
	_, text := decodeBase64(word)
	return text
}
