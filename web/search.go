package web

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/alertmanager/pkg/labels"
)

// searchTerms splits the contents of search boxes into matchers and words. They are separated by white space and commas
// outside quotes. White space around the operator of a matcher does not separate.
func searchTerms(texts []string) ([]string, error) {
	size := 0
	var out []string
	for _, text := range texts {
		if size += len(text); size > maxFilters {
			return nil, fmt.Errorf("the filters have %d bytes, at most %d are allowed", size, maxFilters)
		}
		out = append(out, joinOperators(splitUnquoted(text, wordSeparators))...)
	}
	if len(out) > maxMatchers {
		return nil, fmt.Errorf("there are more than %d matchers", maxMatchers)
	}
	return out, nil
}

// splitUnquoted splits a string at the separators that are outside quotes. It omits empty parts.
func splitUnquoted(text, separators string) (out []string) {
	for text != "" {
		end := indexUnquoted(text, separators)
		if end > 0 {
			out = append(out, text[:end])
		}
		text = text[min(end+1, len(text)):]
	}
	return out
}

// indexUnquoted returns the index of the first separator outside quotes, or the length of the string.
func indexUnquoted(text, separators string) int {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quoted:
			i++
		case text[i] == '"':
			quoted = !quoted
		case !quoted && strings.IndexByte(separators, text[i]) >= 0:
			return i
		}
	}
	return len(text)
}

// wordSeparators are the characters that separate words in a search box.
const wordSeparators = " \t\r\n,"

var operators = []string{"=~", "!~", "!=", "="}

// joinOperators joins a matcher that is split at spaces, such as a = "b", to one word.
func joinOperators(words []string) []string {
	var out []string
	ends := func(w string) bool {
		return slices.ContainsFunc(operators, func(op string) bool { return strings.HasSuffix(w, op) })
	}
	begins := func(w string) bool {
		return slices.ContainsFunc(operators, func(op string) bool { return strings.HasPrefix(w, op) })
	}
	for _, w := range words {
		if n := len(out); n > 0 && (begins(w) || ends(out[n-1])) {
			out[n-1] += w
			continue
		}
		out = append(out, w)
	}
	return out
}

// trimQuotes returns a word without surrounding quotes.
func trimQuotes(word string) string {
	if text, err := strconv.Unquote(word); err == nil && strings.HasPrefix(word, `"`) {
		return text
	}
	return word
}

// searchText returns the content of the search box for the query.
func (q query) searchText() string {
	var out []string
	for _, w := range q.words {
		if len(splitUnquoted(w, wordSeparators)) != 1 || strings.HasPrefix(w, "{") || strings.ContainsAny(w, `"=`) {
			w = strconv.Quote(w)
		}
		out = append(out, w)
	}
	for _, m := range q.matchers {
		out = append(out, m.Name+m.Type.String()+strconv.Quote(m.Value))
	}
	return strings.Join(out, " ")
}

// withoutLabel returns the query without the matchers that require a value of a label.
func (q query) withoutLabel(label string) query {
	q.matchers = slices.DeleteFunc(slices.Clone(q.matchers), func(m *labels.Matcher) bool { return m.Name == label && m.Type == labels.MatchEqual })
	return q
}

// withLabel returns the query with a matcher that requires value as the value of a label.
func (q query) withLabel(label, value string) query {
	q = q.withoutLabel(label)
	m, err := labels.NewMatcher(labels.MatchEqual, label, value)
	if err != nil {
		return q
	}
	q.matchers = append(q.matchers, m)
	return q
}

// demandedValue returns the value that the query requires for a label, or "".
func (q query) demandedValue(label string) string {
	for _, m := range q.matchers {
		if m.Name == label && m.Type == labels.MatchEqual {
			return m.Value
		}
	}
	return ""
}
