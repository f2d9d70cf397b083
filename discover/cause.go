package discover

import (
	"cmp"
	"slices"
	"strings"
)

// cause is why something happened, as far as a pattern says.
type cause struct {
	// key is the same for the same cause: in small letters, without what names
	// and writers make different.
	key string
	// words tell it from others; they are sorted.
	words []string
	// remote tells that all that follows is how a request failed: of whatever a
	// part of a program tried, it is the same that it does not reach.
	remote bool
}

// cause finds why a pattern happened. Go wraps errors as "what: what: why"; how a
// request failed is no cause.
func (p *pattern) cause() cause {
	message, err, _ := strings.Cut(strings.ToLower(strings.Join(p.words, " ")), between)
	parts := strings.Split(strings.TrimSpace(message), ": ")
	if err = strings.TrimSpace(err); err != "" {
		parts = append(parts, strings.Split(err, ": ")...)
	}
	end := len(parts)
	for end > 1 && transport(parts[end-1]) {
		end--
	}
	k := end - 1
	for k > 0 && !telling(parts[k:end]) {
		k--
	}
	text := strings.Trim(strings.TrimSuffix(alike(strings.Join(parts[k:end], ": ")), " [recovered]"), "()[]{}.,; ")
	// Some write "leader election", some "leaderelection".
	key := strings.NewReplacer(" ", "", "-", "", `"`, "").Replace(text)
	return cause{key: key, words: tellingWords(text), remote: end < len(parts)}
}

// alike makes all placeholders the same: a value is quoted here and not there, and
// has digits here and not there.
func alike(text string) string {
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

// fewestWords is how many words, beside placeholders and short ones, tell one
// cause from another. "x not found" is too little.
const fewestWords = 3

func telling(parts []string) bool {
	n := 0
	for _, part := range parts {
		for word := range strings.FieldsSeq(part) {
			if len(word) >= 3 && !strings.Contains(word, "<") {
				n++
			}
		}
	}
	return n >= fewestWords
}

// tellingWords returns the words of a text that tell it from others, sorted. Name
// and value of "name=value" are two.
func tellingWords(text string) []string {
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

// sameCause is the least share of the words of two causes that both have.
const sameCause = 0.75

// like tells whether two causes are nearly the same.
func (c *cause) like(o *cause) bool {
	both := inBoth(c.words, o.words)
	return both >= fewestWords && shared(both, len(c.words), len(o.words)) >= sameCause
}

// inBoth counts what two sorted lists both have.
func inBoth[T cmp.Ordered](a, b []T) int {
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

// transports are how a request failed, not which one did: parts of an error that
// start so.
var transports = []string{
	"get ", "post ", "put ", "patch ", "delete ", "dial ", "read ", "write ", "connect ", "context ", "eof", "unexpected eof", "i/o ",
	"net/http", "rpc error", "connection refused", "connection reset", "connection timed", "connection error", "connection closed",
	"broken pipe", "request canceled", "client rate limiter", "timed out waiting for the condition", "server gave http response",
}

// transport tells whether a part of an error only says how a request failed, or is
// nothing but a name.
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
