package discover

import (
	"cmp"
	"slices"
	"strings"
)

// cause is the reason that a pattern of complaints states, if it states one.
type cause struct {
	// key is equal for equal causes. It is the text of the cause in lower case, without names
	// and punctuation.
	key   string
	words []string // distinctive words of this cause, sorted
	// remote reports that the text after the cause only describes how a request failed, such as
	// a timeout. If several requests of a module fail for this cause, they did not reach the
	// same server.
	remote bool
}

// causeIn returns the cause that the template of a message and the template of its error
// state. Go programs wrap errors in the form "action: action: reason". The way in which a
// request failed is not a cause.
func causeIn(message, err string) cause {
	parts := strings.Split(strings.TrimSpace(strings.ToLower(message)), ": ")
	if err != "" {
		parts = append(parts, strings.Split(strings.TrimSpace(strings.ToLower(err)), ": ")...)
	}
	end := len(parts)
	for end > 1 && transport(parts[end-1]) {
		end--
	}
	k := end - 1
	for k > 0 && !distinctive(parts[k:end]) {
		k--
	}
	text := strings.Trim(strings.TrimSuffix(unifyPlaceholders(strings.Join(parts[k:end], ": ")), " [recovered]"), "()[]{}.,; ")
	return cause{key: withoutGaps.Replace(text), words: distinctiveWords(text), remote: end < len(parts)}
}

// withoutGaps removes characters in which spellings differ, as in "leader election" and
// "leaderelection".
var withoutGaps = strings.NewReplacer(" ", "", "-", "", `"`, "")

// unifyPlaceholders replaces every placeholder by the same one. The same value can have
// different placeholders, because it may be quoted in only one of two lines, or contain digits
// in only one of them.
func unifyPlaceholders(text string) string {
	var b strings.Builder
	for {
		open := strings.IndexByte(text, '<')
		end := strings.IndexByte(text, '>')
		if open < 0 || end < open {
			break
		}
		b.WriteString(text[:open])
		b.WriteString("<>")
		text = text[end+1:]
	}
	b.WriteString(text)
	return b.String()
}

// minWords is the number of distinctive words that two causes must have to be compared by their
// words. Placeholders and short words do not count. "x not found" has too few.
const minWords = 3

func distinctive(parts []string) bool {
	n := 0
	for _, part := range parts {
		for word := range strings.FieldsSeq(part) {
			if len(word) >= 3 && !strings.Contains(word, "<") {
				n++
			}
		}
	}
	return n >= minWords
}

// distinctiveWords returns the words of a text that distinguish it from other texts, sorted.
// "name=value" counts as two words.
func distinctiveWords(text string) []string {
	var out []string
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '=' }) {
		word = strings.Trim(word, "()[]{}.,:;'\"*")
		if len(word) >= 3 && !strings.Contains(word, "<") {
			out = append(out, word)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

const sameCause = 0.75

// similar reports whether two causes are nearly the same.
func (c *cause) similar(o *cause) bool {
	both := common(c.words, o.words)
	return both >= minWords && jaccard(both, len(c.words), len(o.words)) >= sameCause
}

// jaccard returns the Jaccard index of two sets, which is the share of common elements. a and
// b are the sizes of the sets, and both is the number of common elements.
func jaccard(both, a, b int) float64 { return float64(both) / float64(a+b-both) }

// common returns the number of elements that two sorted lists share.
func common[T cmp.Ordered](a, b []T) int {
	both := 0
	for i, k := 0, 0; i < len(a) && k < len(b); {
		switch c := cmp.Compare(a[i], b[k]); {
		case c == 0:
			both++
			i, k = i+1, k+1
		case c < 0:
			i++
		default:
			k++
		}
	}
	return both
}

// transports are the beginnings of parts of an error that state how a request failed, but not
// which request failed.
var transports = []string{
	"get ", "post ", "put ", "patch ", "delete ", "dial ", "read ", "write ", "connect ", "context ", "eof", "unexpected eof", "i/o ",
	"net/http", "rpc error", "connection refused", "connection reset", "connection timed", "connection error", "connection closed",
	"broken pipe", "request canceled", "client rate limiter", "timed out waiting for the condition", "server gave http response",
}

// transport reports whether a part of an error only states how a request failed, or is only a
// name.
func transport(part string) bool {
	if slices.ContainsFunc(transports, func(t string) bool { return strings.HasPrefix(part, t) }) {
		return true
	}
	switch first, rest, _ := strings.Cut(part, " "); {
	case strings.Contains(rest, " "):
		return false
	case strings.Contains(first, "<"):
		return true // only a name and a short word, such as "<obj> timeout"
	default:
		return slices.Contains([]string{"read", "write", "connect", "http", "timeout", "timed"}, first)
	}
}
