package victorialogs

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"crowsnest/sources/internal/rangeread"
)

const (
	maxVariants = 16 // largest number of texts that stand for one text in any case
	maxWindow   = 8  // largest number of letters of such a text
)

// filterText returns filters, one of which every line with the text satisfies. A regular
// expression without operators is the form of a substring filter that every version of VictoriaLogs
// has. For one in any case, VictoriaLogs takes 100 times as long as for a substring. Therefore the
// filters are substrings: a part of the text in each combination of cases.
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

// foldings returns texts, one of which is in every text that equals s apart from case. They are all
// forms of the longest part of s that has few of them.
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
