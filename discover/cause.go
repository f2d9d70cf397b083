package discover

import (
	"cmp"
	"slices"
	"strings"
)

// cause is the reason for a complaint, as far as its pattern states one.
type cause struct {
	// key is equal for equal causes: lower case, without names and without
	// differences in punctuation.
	key string
	// words are the words that distinguish this cause from others, sorted.
	words []string
	// remote reports that the text after the cause only describes how a request
	// failed. Whatever a module attempted, it failed to reach the same server.
	remote bool
}

// cause returns the cause of a pattern. Go wraps errors as "what: what: why"; the
// way in which a request failed is not a cause.
func (p *pattern) cause() cause {
	message, err, _ := strings.Cut(strings.ToLower(strings.Join(p.words, " ")), errorSeparator)
	parts := strings.Split(strings.TrimSpace(message), ": ")
	if err = strings.TrimSpace(err); err != "" {
		parts = append(parts, strings.Split(err, ": ")...)
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

// withoutGaps makes texts equal that are often written both ways, such as "leader election"
// and "leaderelection".
var withoutGaps = strings.NewReplacer(" ", "", "-", "", `"`, "")

// unifyPlaceholders makes all placeholders equal: the same value may be quoted in one line and
// not in another, or may have digits in one and not in another.
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

// minWords is how many words, not counting placeholders and short ones, distinguish
// one cause from another. "x not found" has too few.
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

// distinctiveWords returns the words that distinguish a text from others, sorted.
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

// sameCause is the minimum share of common words of two equal causes.
const sameCause = 0.75

// similar reports whether two causes are nearly the same.
func (c *cause) similar(o *cause) bool {
	both := common(c.words, o.words)
	return both >= minWords && jaccard(both, len(c.words), len(o.words)) >= sameCause
}

// common counts the elements that two sorted lists share.
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

// transports are prefixes of parts of an error that state how a request failed, not
// which request.
var transports = []string{
	"get ", "post ", "put ", "patch ", "delete ", "dial ", "read ", "write ", "connect ", "context ", "eof", "unexpected eof", "i/o ",
	"net/http", "rpc error", "connection refused", "connection reset", "connection timed", "connection error", "connection closed",
	"broken pipe", "request canceled", "client rate limiter", "timed out waiting for the condition", "server gave http response",
}

// transport reports whether a part of an error only states how a request failed, or
// is only a name.
func transport(part string) bool {
	if slices.ContainsFunc(transports, func(t string) bool { return strings.HasPrefix(part, t) }) {
		return true
	}
	switch first, rest, _ := strings.Cut(part, " "); {
	case strings.Contains(rest, " "):
		return false
	case strings.Contains(first, "<"):
		return true // such as "<obj> timeout"
	default:
		return slices.Contains([]string{"read", "write", "connect", "http", "timeout", "timed"}, first)
	}
}
