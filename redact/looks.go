package redact

import (
	"slices"
	"strings"

	"crowsnest/redact/internal/shape"
)

// minPiece is the minimum length in bytes of the pieces of a word, which punctuation separates.
const minPiece = 4

// hideWords hides words that are the base64 encoding of a text with a secret, and words that look random because they
// mix upper-case letters, lower-case letters and digits. It hides hexadecimal digests, UUIDs and shorter words only if
// the text before them announces a secret. Outside long words it reads only every 16th byte, for speed.
func (sc *scanner) hideWords(s string) string {
	out := rewriter{s: s}
	for i, end := longRun(s, 0, shape.MinAnnounced, randomBytes); i < end; i, end = longRun(s, end, shape.MinAnnounced, randomBytes) {
		sc.steps += end - i
		from, to, seen := 0, 0, uint8(0)
		for _, c := range []byte(s[i:end]) {
			seen |= shape.Kind(c)
		}
		mixed := seen&(shape.Upper|shape.Lower) == shape.Upper|shape.Lower
		if mixed || seen&shape.Digit != 0 && end-i >= shape.MinPlain {
			from, to = sc.secretWord(s, i, end)
		}
		if to > from {
			from, to = widen(s, from, to)
			out.replace(span{max(from, out.copied), to}, Mask)
		}
		end = max(end, to)
	}
	return out.String()
}

// longRun returns the first run of at least n bytes of a set that starts at i or later, or an empty run. Outside such
// runs it reads only some of the bytes.
func longRun(s string, i, n int, in class) (from, to int) {
	for i+n <= len(s) {
		last := i + n - 1
		for last >= i && in[s[last]] {
			last--
		}
		if last < i {
			for to = i + n; to < len(s) && in[s[to]]; {
				to++
			}
			return i, to
		}
		i = last + 1
	}
	return len(s), len(s)
}

// widen extends a random-looking word by up to three pieces of the same token on each side. Dots or similar characters
// separate the pieces. Before the word, widen stops at an ordinary word.
func widen(s string, start, end int) (int, int) {
	for end < len(s) && s[end] == '=' {
		end++
	}
	for n := 0; n < 3 && end+1 < len(s) && strings.IndexByte(".!:~", s[end]) >= 0 && isAlnum(s[end+1]); n++ {
		for end++; end < len(s) && randomBytes[s[end]]; {
			end++
		}
	}
	for n := 0; n < 3 && start > 1 && strings.IndexByte(".!:~", s[start-1]) >= 0; n++ {
		at := start - 1
		for at > 0 && start-at < maxKey && randomBytes[s[at-1]] {
			at--
		}
		if sh := shape.Measure(s[at : start-1]); sh.Upper == 0 || sh.Digit == 0 && sh.Upper < 2 {
			break
		}
		start = at
	}
	return start, end
}

// secretWord returns the section of the word s[start:stop] that is a secret, or an empty section.
func (sc *scanner) secretWord(s string, start, stop int) (int, int) {
	before := s[max(0, start-64):start]
	if shape.IsUUID(s[start:stop]) {
		if announces(before, true) {
			return start, stop
		}
		return 0, 0
	}
	whole := shape.Measure(s[start:stop])
	if !whole.Suspect() {
		return 0, 0
	}
	if whole.Upper > 0 && whole.Lower > 0 && sc.isCodedSecret(s[start:stop]) {
		return start, stop
	}
	isSecret := func(sh shape.Shape) bool {
		return sh.IsSecret(true) && (sh.IsSecret(false) || announces(before, false) || dotted(s, start, stop, whole))
	}
	if isSecret(whole) {
		if isHarmless(before, s[start:stop]) {
			return 0, 0
		}
		return start, stop
	}
	least := minPiece
	if whole.Upper == 0 || whole.Lower == 0 {
		least = shape.MinPlain
	}
	for at, end := longRun(s[:stop], start, least, alnums); at < end; at, end = longRun(s[:stop], end, least, alnums) { // the pieces are separated by slashes and other characters
		behindName := end-at >= shape.MinHex && at > start+1 && s[at-1] == '_'
		if p := shape.Measure(s[at:end]); isSecret(p) || behindName {
			return at, stop
		}
	}
	return 0, 0
}

// dotted reports whether a word that looks random belongs to a token with several pieces. Either a dot and another long
// word follow it, or a long number and a colon precede it.
func dotted(s string, start, stop int, sh shape.Shape) bool {
	if stop < len(s) && s[stop] == '.' && sh.Upper > 1 && sh.Lower > 1 && (sh.Digit > 0 || sh.Changes*4 > sh.Length) {
		end := stop + 1
		for end < len(s) && isWordByte(s[end]) {
			end++
		}
		return end-stop > shape.MinAnnounced && strings.ContainsAny(s[stop:end], digits)
	}
	n := 2
	for n <= start && s[start-1] == ':' && isDigit(s[start-n]) {
		n++
	}
	return n > 12
}

// Words in lower case that may precede a random word. An announcement states that the word is a secret. Links may stand
// between the announcement and the word. Harmless words state that the word is not a secret.
var (
	announcements, links = words("announcement"), words("link")
	identified, harmless = words("identified"), words("harmless")
	publicStarts         = words("publicStart") // prefixes of digests and of the names of Calico's IP sets
)

// announces reports whether the end of text announces a secret. A UUID must directly follow the announcing word.
func announces(text string, uuid bool) bool {
	for range 4 {
		word, rest := lastWordOf(text)
		switch w := word.String(); {
		case uuid:
			return slices.Contains([]string{"token", "secret", "password", "apikey", "credential"}, w) || w == "" && endsWithMask(text)
		case w == "":
			return endsWithMask(text)
		case announcements[w]:
			return true
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

// String returns the word, or "" for a word that is longer than every word in the vocabularies.
func (w *foldedWord) String() string { return string(w.letters[:w.n]) }

func lastWordOf(text string) (word foldedWord, rest string) {
	t := input{s: text}
	to := t.runStart(len(text), len(text), afterWords)
	from := t.runStart(to, to, wordBytes)
	if from < to && to-from <= len(word.letters) {
		word.n = len(appendLower(word.letters[:0], text[from:to]))
	}
	return word, text[:from]
}

// isHarmless reports whether a random word is public. Such words are fingerprints, public keys, certificates, and
// encoded text that was already scanned. before is the text before the word.
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
	for start := range publicStarts {
		if strings.HasPrefix(word, start) {
			return true
		}
	}
	_, text := decodeBase64(word)
	return text
}
