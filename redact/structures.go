package redact

import (
	"strings"

	"crowsnest/redact/internal/shape"
)

// secondArgument finds the password of a call such as url.UserPassword("u", "p"),
// whose arguments begin at i.
func secondArgument(t *input, i int) span {
	for range 2 {
		i = t.run(i, blanksAndCommas)
		quote, n := t.openingQuote(i)
		if quote < 0 {
			return span{}
		}
		p := t.quoted(quote, n)
		i = p.to + n + 1
		if t.byteAt(t.run(i, blanks)) != ',' {
			return p
		}
	}
	return span{}
}

// insertedValue finds the value of a column with the name of a secret: INSERT INTO t (a, password)
// VALUES ('x', 'y'), whose values begin at i.
func (t *scanner) insertedValue(i int) span {
	before := t.before(i, maxKnown)
	to := strings.LastIndexByte(before, ')')
	from := strings.LastIndexByte(before[:max(to, 0)], '(')
	if to < 0 || from < 0 || len(before)-to > 16 {
		return span{}
	}
	for column := range strings.SplitSeq(before[from+1:to], ",") {
		i = t.run(i, spaces)
		if i >= len(t.s) {
			return span{}
		}
		value := input{s: t.from(0, min(len(t.s), i+maxKnown))}
		p := value.word(i)
		t.steps += p.to - i
		if t.table.classify(strings.Trim(column, "\"'`\\[] ")) >= weakKey && !isNotSet(t.of(p)) {
			return p
		}
		comma := strings.IndexByte(t.from(p.to, 8), ',')
		if comma < 0 {
			return span{}
		}
		i = p.to + comma + 1
	}
	return span{}
}

// fillers are words that may stand between "password" and the password.
var fillers = words("filler")

// passwordInProse finds the password that follows the word at i in prose: it has a digit or
// a sign, which words do not have.
func passwordInProse(t *input, i int) span {
	end := t.runUpTo(i, 16, letters)
	name := t.s[i:end]
	credentials := strings.EqualFold(name, "credentials")
	if !credentials && !equalsAny(name, "password", "passwd", "passphrase", "passcode") {
		return span{}
	}
	word, _ := lastWordOf(t.before(i, 24))
	with := !credentials && (word.String() == "with" || word.String() == "using")
	if p := t.quotedAt(end + 1); t.byteAt(end) == '(' && !p.empty() {
		return p
	}
	mayName := false
	for range 6 {
		at := t.run(end, blanks)
		if at == end || at == len(t.s) {
			return span{}
		}
		p := t.word(at)
		if cut := strings.IndexAny(t.of(p), `\|`); cut > 0 {
			p.to = p.from + cut
		}
		if credentials {
			if cut := strings.IndexAny(t.of(p), ":/"); cut > 0 {
				p.from += cut + 1
			}
		}
		text := t.of(p)
		if looksChosen(text) || with && len(text) >= 6 && isLowerWord(text) && !isWord(text) && !isVerb(text) {
			return p
		}
		switch word := strings.ToLower(strings.TrimRight(text, ":")); {
		case fillers[word]:
			with = with || text == "is"
			mayName = mayName || word == "for" || word == "of" || word == "user"
		case mayName: // whose password it is
			mayName, with = false, false
		default:
			return span{}
		}
		end = p.to
	}
	return span{}
}

// looksChosen reports whether a word after "password" is a password: it has letters and
// digits or signs, and is not a name, a version or an address.
func looksChosen(s string) bool {
	if len(s) < 6 || len(s) > 128 || s == Mask {
		return false
	}
	var upper, lower, digit, sign, joint, odd bool
	for i := range len(s) {
		switch c := s[i]; {
		case isUpper(c):
			upper = true
		case isLower(c):
			lower = true
		case isDigit(c):
			digit = true
		case c == '-' || c == '.' || c == '_':
			joint = true
		case strings.IndexByte("!@#$%^*+~?", c) >= 0:
			sign = sign || i > 0 && i < len(s)-1
		case c == '/' || c == '=' || c == '&':
			odd = true
		default:
			return false
		}
	}
	switch {
	case !upper && !lower:
		return false
	case odd:
		return upper && lower && digit && !joint
	case len(s) >= 8 && isRandomCase(shape.Of(s)):
		return true
	}
	return sign || digit && (!joint || upper && lower) && !isAlgorithm(s)
}

// isRandomCase reports whether upper and lower case alternate at random, unlike in
// names such as KubeConfig.
func isRandomCase(sh shape.Shape) bool {
	return 3*sh.Upper >= sh.Length && 3*sh.Lower >= sh.Length && sh.Changes > 1
}

func isAlgorithm(s string) bool {
	s = strings.ToLower(s)
	return strings.HasPrefix(s, "sha") || strings.HasPrefix(s, "argon") || strings.HasPrefix(s, "pbkdf") || strings.HasPrefix(s, "base64")
}

// isVerb reports whether a word says what happened to a password.
func isVerb(s string) bool {
	return strings.HasSuffix(s, "ed") || strings.HasSuffix(s, "ing") || strings.HasSuffix(s, "ly") || afterPassword[s]
}

// afterPassword may follow "with password" and "password is" in prose.
var afterPassword = words("afterPassword")

// pin finds four to eight digits.
func pin(t *input, i int) span {
	end := t.run(i, digitSet)
	if end-i < 4 || end-i > 8 || isAlnum(t.byteAt(end)) {
		return span{}
	}
	return span{i, end}
}
