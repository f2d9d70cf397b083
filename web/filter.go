package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/prometheus/alertmanager/pkg/labels"

	"crowsnest/episodes"
)

// Bounds of the filters of one request. Requests need no authentication, and every
// expression is compiled and evaluated on every alert.
const (
	maxFilters  = 4 << 10 // bytes of all filters together
	maxMatchers = 32
	maxPattern  = 256  // bytes of an expression
	maxProgram  = 2000 // character ranges after expanding repetitions
)

// parseFilters parses matchers in Alertmanager's syntax, {a="b",c=~"d.*"}, with
// or without the braces.
func parseFilters(texts []string) ([]*labels.Matcher, error) {
	size := 0
	for _, text := range texts {
		size += len(text)
	}
	if size > maxFilters {
		return nil, fmt.Errorf("the filters have %d bytes, at most %d are allowed", size, maxFilters)
	}
	var out []*labels.Matcher
	for _, text := range texts {
		for _, part := range splitMatchers(text) {
			if len(out) == maxMatchers {
				return nil, fmt.Errorf("there are more than %d matchers", maxMatchers)
			}
			m, err := parseMatcher(part)
			if err != nil {
				return nil, fmt.Errorf("filter %q: %w; write matchers such as {severity=\"critical\",namespace=~\"team-.*\"}", text, err)
			}
			out = append(out, m)
		}
	}
	return out, nil
}

// splitMatchers splits a filter at the commas outside quotes.
func splitMatchers(text string) []string {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}") {
		text = text[1 : len(text)-1]
	}
	var out []string
	quoted, from := false, 0
	add := func(to int) {
		if part := strings.TrimSpace(text[from:to]); part != "" {
			out = append(out, part)
		}
	}
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quoted:
			i++
		case text[i] == '"':
			quoted = !quoted
		case text[i] == ',' && !quoted:
			add(i)
			from = i + 1
		}
	}
	add(len(text))
	return out
}

var matcherForm = regexp.MustCompile(`^\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(=~|!~|!=|=)(?s:(.*))$`)

// parseMatcher parses one matcher. It checks the size of an expression before
// compiling it.
func parseMatcher(text string) (*labels.Matcher, error) {
	form := matcherForm.FindStringSubmatch(text)
	if form == nil {
		return labels.ParseMatcher(text) // for its error
	}
	plain, err := labels.ParseMatcher(form[1] + "=" + form[3])
	if err != nil {
		return nil, err
	}
	kind := map[string]labels.MatchType{"=": labels.MatchEqual, "!=": labels.MatchNotEqual, "=~": labels.MatchRegexp, "!~": labels.MatchNotRegexp}[form[2]]
	if kind == labels.MatchRegexp || kind == labels.MatchNotRegexp {
		if err := checkPattern(plain.Value); err != nil {
			return nil, err
		}
	}
	return labels.NewMatcher(kind, form[1], plain.Value)
}

// checkPattern refuses expressions that are expensive to compile or evaluate.
func checkPattern(pattern string) error {
	if len(pattern) > maxPattern {
		return fmt.Errorf("the expression has %d bytes, at most %d are allowed", len(pattern), maxPattern)
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return err
	}
	if programSize(re) > maxProgram {
		return errors.New("the expression is too large after its repetitions are expanded")
	}
	return nil
}

// programSize estimates the number of character ranges in the compiled
// expression.
func programSize(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		size = min(size+programSize(sub), maxProgram+1)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(1, re.Max, re.Min)
	}
	return min(size, maxProgram+1)
}

// filtered returns the episodes that satisfy the filter, match[], fingerprint and state
// parameters, firing ones first.
func (s *Server) filtered(r *http.Request) ([]episodes.Episode, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("the query cannot be read: %w; encode what is not a letter or digit as %%XX", err)
	}
	matchers, err := parseFilters(slices.Concat(q["filter"], q["match[]"]))
	if err != nil {
		return nil, err
	}
	states := q["state"]
	for _, st := range states {
		if !slices.Contains([]string{"pending", "firing", "resolved"}, st) {
			return nil, fmt.Errorf("state %q is not one of pending, firing, resolved", st)
		}
	}
	wanted, err := s.fingerprints(q)
	if err != nil {
		return nil, err
	}
	var out []episodes.Episode
	for _, e := range s.view.Episodes() {
		if len(states) > 0 && !slices.Contains(states, string(e.State)) || wanted != nil && !slices.Contains(wanted, e.Fingerprint) {
			continue
		}
		if satisfies(matchers, e.Labels) {
			out = append(out, e)
		}
	}
	sortEpisodes(out)
	return out, nil
}

func satisfies(matchers []*labels.Matcher, own map[string]string) bool {
	return !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(own[m.Name]) })
}

// fingerprints returns the alerts that the parameters fingerprint select, as the daemon
// knows them; nil: all.
func (s *Server) fingerprints(q url.Values) (out []episodes.Fingerprint, err error) {
	if len(q["fingerprint"]) > maxMatchers {
		return nil, fmt.Errorf("there are more than %d fingerprints", maxMatchers)
	}
	for _, text := range q["fingerprint"] {
		print, ok := s.identify(text)
		if !ok {
			return nil, fmt.Errorf("fingerprint %.40q is not 16 hexadecimal digits", text)
		}
		out = append(out, print)
	}
	return out, nil
}
