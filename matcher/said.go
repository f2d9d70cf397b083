package matcher

import (
	"slices"
	"unicode"
	"unicode/utf8"

	"crowsnest/internal/literals"
	"crowsnest/matcher/internal/lines"
	"crowsnest/rules"
)

// A line contains words of others: values of fields, and quoted strings. A text of several
// words counts only where the program speaks for itself, which lines.Quotes knows. One word may
// be a name there, such as a resource in a URL, so it counts beside a text that the program says.

// everyVoice are the voices of `in: anywhere`.
const everyVoice = lines.Message | lines.Error | lines.Quotation

func voicesOf(in rules.In) lines.Voice {
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

// defaultIn returns where the texts of a part count that does not state it.
func (p Part) defaultIn() rules.In {
	if p < 0 {
		return rules.InMessage
	}
	return rules.InSpoken
}

func hasTexts(m *rules.Matcher) bool { return len(m.Contains) > 0 || m.Regex != nil }

// states reports whether the fields of a matcher are what it looks for: one has a stated value
// or text, or there is nothing else. Beside texts, a field of any value only names an object.
func states(m *rules.Matcher, beside bool) bool {
	return !beside && !hasTexts(m) && len(m.Any) == 0 || slices.ContainsFunc(m.Fields, rules.Field.States)
}

// unsure reports whether the program need not say anything for a branch to hold, such as one with
// `in: anywhere`: then it must say a text beside it.
func unsure(branch, around lines.Voice, texts bool) bool { return texts && branch&^around != 0 }

// allSaid reports whether the whole line is in one of the voices, as far as that is seen at once.
func (sc *scratch) allSaid(voices lines.Voice) bool {
	return voices == everyVoice || voices&lines.Message != 0 && sc.quotes.Plain()
}

// findText reports whether a line contains a text where it counts: anywhere if it is one word,
// which may be a name, and otherwise in one of the voices. said means that it is in one of them.
// first is the first place of the text, negative if there is none.
func findText(text *literals.Needle, line []byte, first int, quotes *lines.Quotes, voices lines.Voice) (found, said bool) {
	for from, k := 0, first; k >= 0; k = text.Index(line[from:]) {
		from += k
		to := from + text.Len()
		if quotes.Says(from, to, voices) {
			return true, true
		}
		found = found || isName(line, from, to, quotes)
		from++
	}
	return found, false
}

// textsOf returns the texts of an expression that looks for one of them and nothing else, and has
// no groups; else nil.
func textsOf(re *literals.Expression) (out []literals.Needle) {
	if len(re.SubexpNames()) > 1 {
		return nil
	}
	for _, text := range re.Required().AnyOf() {
		out = append(out, literals.NewNeedle(text))
	}
	return out
}

// findAny is findExpression for an expression that looks for one of the texts.
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

// isName reports whether a text in words of others may be a name there: it is one word, or
// none.
func isName(line []byte, from, to int, quotes *lines.Quotes) bool {
	text := line[from:to]
	return !lines.HasWord(text) || !severalWords(text) && quotes.Names(from, to)
}

// severalWords reports whether a text has letters or digits on both sides of white space.
func severalWords(text []byte) bool {
	word, gap := false, false // a word was seen, white space behind one was seen
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

// maxTries bounds how often findExpression matches an expression.
const maxTries = 4

// match is the result of findExpression.
type match struct {
	loc  []int // places of the match and its groups; nil if nothing counts
	said bool  // one of its texts is in one of the voices
	// unsaid is the place of a text that excluded a match; nil if there is none.
	unsaid []int
}

// findExpression finds a match that counts: each of its own texts is in one of the voices, or
// a name. One of them is in one of the voices; if said is set, a match of names alone counts where
// there is no other. It tries the leftmost match, and then those after and before the text that
// excluded it.
func findExpression(re *literals.Expression, line []byte, quotes *lines.Quotes, voices lines.Voice, said bool) (out match) {
	runs := re.Runs()
	var windows [maxTries][2]int
	windows[0] = [2]int{0, len(line)}
	n := 1
	add := func(from, to int) {
		if n < maxTries && from < to {
			windows[n] = [2]int{from, to}
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
			case quotes.Says(start, end, voices):
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
