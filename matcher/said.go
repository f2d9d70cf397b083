package matcher

import (
	"slices"
	"unicode"
	"unicode/utf8"

	"crowsnest/internal/literals"
	"crowsnest/matcher/internal/lines"
	"crowsnest/rules"
)

// In values of fields and in quoted strings, a line may repeat text that others wrote. A text of several words
// therefore counts only in the program's own voice, which lines.Quotes finds. A single word in such a place may be a
// name, such as a resource in a URL. Such a word counts if another text is in the program's own voice.

// everyVoice holds the voices of `in: anywhere`.
const everyVoice = lines.Message | lines.Error | lines.Quotation

func placeVoices(in rules.In) lines.Voice {
	switch in {
	case rules.InMessage:
		return lines.Message
	case rules.InError:
		return lines.Error
	case rules.InAnywhere:
		return everyVoice
	}
	return lines.Message | lines.Error
}

// defaultIn returns the value of `in` for a part that does not state it.
func (p Part) defaultIn() rules.In {
	if p < 0 {
		return rules.InMessage
	}
	return rules.InSpoken
}

func hasTexts(m *rules.Matcher) bool { return len(m.Contains) > 0 || m.Regex != nil }

// statesFields reports whether fields of a matcher count as a statement of the program. Fields count as a statement if
// a field must have a certain value or text, or if the matcher has no texts. If the matcher has texts, a field that may
// have any value only names an object.
func statesFields(m *rules.Matcher, beside bool) bool {
	return !beside && !hasTexts(m) && len(m.Any) == 0 || slices.ContainsFunc(m.Fields, rules.Field.States)
}

// isUnsure reports whether a branch, such as one with `in: anywhere`, can match text that is not in the program's own
// voice. Then another text of the matcher must be in the program's own voice.
func isUnsure(branch, around lines.Voice, texts bool) bool { return texts && branch&^around != 0 }

// allSaid reports whether a quick check shows that the whole line is in one of the voices.
func (sc *scratch) allSaid(voices lines.Voice) bool {
	return voices == everyVoice || voices&lines.Message != 0 && sc.quotes.HasNoSpans()
}

// findText reports whether a line contains a text at a position where it counts. A single word that may be a name
// counts everywhere. A longer text counts only in one of the voices. said reports whether the text is in one of the
// voices. first is the first position of the text, or negative if there is none.
func findText(text *literals.Needle, line []byte, first int, quotes *lines.Quotes, voices lines.Voice) (found, said bool) {
	for from, k := 0, first; k >= 0; k = text.Index(line[from:]) {
		from += k
		to := from + text.Len()
		if quotes.HasVoice(from, to, voices) {
			return true, true
		}
		found = found || isName(line, from, to, quotes)
		from++
	}
	return found, false
}

// soughtTexts returns the texts of an expression that is only an alternative of literal texts and has no groups. It
// returns nil for any other expression.
func soughtTexts(re *literals.Expression) (out []literals.Needle) {
	if len(re.SubexpNames()) > 1 {
		return nil
	}
	for _, text := range re.Required().AnyOf() {
		out = append(out, literals.NewNeedle(text))
	}
	return out
}

// findAny is findExpression for an expression for which soughtTexts returns texts.
func findAny(texts []literals.Needle, line []byte, quotes *lines.Quotes, voices lines.Voice, beside bool) (found, said bool) {
	for i := range texts {
		name, here := findText(&texts[i], line, texts[i].Index(line), quotes, voices)
		if here {
			return true, true
		}
		found = found || name && beside
	}
	return found, false
}

// isName reports whether a match in quoted text may be a name. A name has at most one word.
func isName(line []byte, start, end int, quotes *lines.Quotes) bool {
	text := line[start:end]
	return !lines.HasWord(text) || !severalWords(text) && quotes.InWords(start, end)
}

// severalWords reports whether white space separates letters or digits in a text.
func severalWords(text []byte) bool {
	word, gap := false, false // whether a word, and white space after it, were found
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		text = text[size:]
		switch {
		case unicode.IsSpace(r):
			gap = word
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			if gap {
				return true
			}
			word = true
		}
	}
	return false
}

// maxTries is the maximum number of times that findExpression runs an expression.
const maxTries = 4

type match struct {
	loc  []int // positions of the match and its groups, as in regexp; nil if no match counts
	said bool  // whether one of the matched texts is in one of the voices
	// unsaid is the position of the first text that caused a match to be rejected. It is nil if no match was rejected.
	unsaid []int
}

// findExpression finds a match that counts. Each text of such a match is in one of the voices or is a name, and at
// least one is in one of the voices. If said is set and there is no such match, a match that consists only of names
// also counts. findExpression tries the leftmost match first. If a text of it does not count, it tries the matches
// after that text and before it.
func findExpression(re *literals.Expression, line []byte, quotes *lines.Quotes, voices lines.Voice, said bool) (out match) {
	runs := re.Runs()
	var windows [maxTries][2]int
	windows[0] = [2]int{0, len(line)}
	n := 1
	add := func(start, end int) {
		if n < maxTries && start < end {
			windows[n] = [2]int{start, end}
			n++
		}
	}
	for i := 0; i < n; i++ {
		from, to := windows[i][0], windows[i][1]
		loc, found := runs.Find(line[from:to])
		if loc == nil {
			continue
		}
		leftmost := from + loc[0]
		bad, one, texts := -1, false, false
		for k := 0; k < len(found) && bad < 0; k += 2 {
			start, end := from+found[k], from+found[k+1]
			switch {
			case !lines.HasWord(line[start:end]):
				continue
			case quotes.HasVoice(start, end, voices):
				one = true
			case !isName(line, start, end, quotes):
				bad = k
			}
			texts = true
		}
		one = one || !texts
		if bad < 0 && (one || said && out.loc == nil) {
			for k := range loc {
				if loc[k] >= 0 {
					loc[k] += from
				}
			}
			if out = (match{loc: loc, said: one}); one {
				return out
			}
		}
		bad = max(bad, 0)
		start, end := from+found[bad], from+found[bad+1]
		if out.loc == nil && out.unsaid == nil {
			out.unsaid = []int{start, end}
		}
		if !runs.AtStart {
			add(end, to)
		}
		if !runs.AtEnd && leftmost < start {
			add(from, start)
		}
	}
	return out
}
