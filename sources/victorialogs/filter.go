package victorialogs

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"crowsnest/sources/internal/rangeread"
)

const (
	maxVariants = 16 // largest number of texts that stand for one text in all combinations of cases
	maxWindow   = 8  // largest number of letters in a part of a text whose cases are all tried
)

// filterText returns filters. Every line with the text satisfies at least one of them. A substring filter is written as
// a regular expression without operators, because every version of VictoriaLogs has this form. A filter that ignores
// case takes VictoriaLogs 100 times as long as a substring. Therefore the filters are substrings, one for each
// combination of cases of a part of the text.
func filterText(t rangeread.Text) string {
	texts := []string{t.Text}
	if t.Fold {
		texts = foldings(t.Text)
	}
	for i, text := range texts {
		texts[i] = "~" + strconv.Quote(regexp.QuoteMeta(text))
	}
	return strings.Join(texts, " or ")
}

// foldings returns all upper and lower case forms of the longest part of s that has few such forms. Every text that
// equals s apart from case contains one of them.
func foldings(s string) []string {
	runes := []rune(s)
	best, length := []string{""}, 0
	for i := range runes {
		forms, n := []string{""}, 0
		for n < maxWindow && i+n < len(runes) {
			longer := appendCases(forms, runes[i+n])
			if len(longer) > maxVariants {
				break
			}
			forms, n = longer, n+1
		}
		if n > length {
			best, length = forms, n
		}
	}
	return best
}

// appendCases returns the texts followed by each case of a letter. Regular expressions of Go use the same cases.
func appendCases(texts []string, letter rune) (out []string) {
	for _, text := range texts {
		out = append(out, text+string(letter))
		for r := unicode.SimpleFold(letter); r != letter; r = unicode.SimpleFold(r) {
			out = append(out, text+string(r))
		}
	}
	return out
}
