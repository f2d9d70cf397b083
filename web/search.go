package web

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/alertmanager/pkg/labels"
)

// searchTerms splits the texts of a search box into matchers and words. White space and
// commas outside quotes separate them; white space around the operator of a matcher does
// not.
func searchTerms(texts []string) ([]string, error) {
	size := 0
	var out []string
	for _, text := range texts {
		if size += len(text); size > maxFilters {
			return nil, fmt.Errorf("the filters have %d bytes, at most %d are allowed", size, maxFilters)
		}
		out = append(out, joinOperators(splitWords(text))...)
	}
	if len(out) > maxMatchers {
		return nil, fmt.Errorf("there are more than %d matchers", maxMatchers)
	}
	return out, nil
}

// splitWords splits a text at white space and commas outside quotes.
func splitWords(text string) []string {
	var out []string
	quoted, from := false, 0
	for i := 0; i <= len(text); i++ {
		switch {
		case i == len(text), !quoted && strings.IndexByte(" \t\r\n,", text[i]) >= 0:
			if from < i {
				out = append(out, text[from:i])
			}
			from = i + 1
		case quoted && text[i] == '\\':
			i = min(i+1, len(text)-1)
		case text[i] == '"':
			quoted = !quoted
		}
	}
	return out
}

var operators = []string{"=~", "!~", "!=", "="}

// joinOperators joins a = "b" and a= "b" to one word.
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

// unquoted returns a word without the quotes around it, if it has them.
func unquoted(word string) string {
	if text, err := strconv.Unquote(word); err == nil && strings.HasPrefix(word, `"`) {
		return text
	}
	return word
}

// text returns the query as the text of a search box.
func (q query) text() string {
	var out []string
	for _, w := range q.words {
		if len(splitWords(w)) != 1 || strings.HasPrefix(w, "{") || strings.ContainsAny(w, `"=`) {
			w = strconv.Quote(w)
		}
		out = append(out, w)
	}
	for _, m := range q.matchers {
		out = append(out, m.Name+m.Type.String()+strconv.Quote(m.Value))
	}
	return strings.Join(out, " ")
}

// without returns the query without the matchers that demand a value of a label.
func (q query) without(label string) query {
	q.matchers = slices.DeleteFunc(slices.Clone(q.matchers), func(m *labels.Matcher) bool { return m.Name == label && m.Type == labels.MatchEqual })
	return q
}

// with returns the query that demands one value of a label.
func (q query) with(label, value string) query {
	q = q.without(label)
	m, err := labels.NewMatcher(labels.MatchEqual, label, value)
	if err != nil {
		return q
	}
	q.matchers = append(q.matchers, m)
	return q
}

// value returns the value of a label that the query demands; "" if it demands none.
func (q query) value(label string) string {
	for _, m := range q.matchers {
		if m.Name == label && m.Type == labels.MatchEqual {
			return m.Value
		}
	}
	return ""
}
