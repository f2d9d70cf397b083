package web

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/prometheus/alertmanager/pkg/labels"

	"crowsnest/episodes"
	"crowsnest/internal/lazyre"
)

// Limits of the filters of one request. Requests need no authentication, and every expression is compiled and then
// evaluated on every alert.
const (
	maxFilters  = 4 << 10 // maximum size of all filters together in bytes
	maxMatchers = 32
	maxPattern  = 256  // maximum size of an expression in bytes
	maxProgram  = 2000 // maximum number of character ranges in an expression after its repetitions are expanded
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

func splitMatchers(text string) []string {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}") {
		text = text[1 : len(text)-1]
	}
	var out []string
	for _, part := range splitUnquoted(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

var matcherForm = lazyre.New(`^\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(=~|!~|!=|=)(?s:(.*))$`)

// parseMatcher parses one matcher. It checks the size of a regular expression before compiling it.
func parseMatcher(text string) (*labels.Matcher, error) {
	form := matcherForm.FindStringSubmatch(text)
	if form == nil {
		return labels.ParseMatcher(text) // fails, and returns the error of the parser
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

// selectableStates are the states that a request can select. These are the states of the API, and held.
var selectableStates = []string{"firing", "pending", "held", "unwatched", "resolved"}

type query struct {
	matchers []*labels.Matcher
	words    []string               // words in lower case; an alert must contain all of them
	states   []string               // states to select; empty selects all states
	prints   []episodes.Fingerprint // fingerprints to select; nil selects all alerts
	flat     bool                   // whether the page shows each alert in its own row
}

// parseQuery reads the filter, match[] and state parameters of a request.
func parseQuery(r *http.Request) (query, error) {
	v, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return query{}, fmt.Errorf("the query cannot be read: %w; encode what is not a letter or digit as %%XX", err)
	}
	q := query{states: v["state"], flat: v.Get("group") == "none"}
	for _, st := range q.states {
		if !slices.Contains(selectableStates, st) {
			return query{}, fmt.Errorf("state %.40q is not one of %s", st, strings.Join(selectableStates, ", "))
		}
	}
	var exact, loose []string
	exact = append(exact, v["match[]"]...)
	for _, text := range v["filter"] {
		if strings.HasPrefix(strings.TrimSpace(text), "{") {
			exact = append(exact, text)
		} else {
			loose = append(loose, text)
		}
	}
	terms, err := searchTerms(loose)
	if err != nil {
		return query{}, err
	}
	for _, t := range terms {
		if form := matcherForm.FindStringSubmatch(t); form != nil {
			if st := trimQuotes(form[3]); form[1] == stateFacet && form[2] == "=" && slices.Contains(selectableStates, st) {
				q.states = append(q.states, st) // other values are not states, but may belong to a label named state
				continue
			}
			exact = append(exact, t)
		} else {
			q.words = append(q.words, strings.ToLower(trimQuotes(t)))
		}
	}
	q.matchers, err = parseFilters(exact)
	return q, err
}

// readQuery reads the selection of a request, including its fingerprints.
func (s *Server) readQuery(r *http.Request) (query, error) {
	q, err := parseQuery(r)
	if err == nil {
		q.prints, err = s.fingerprints(r.URL.Query()["fingerprint"])
	}
	return q, err
}

func (q query) selectsEpisode(e *episodes.Episode) bool {
	inState := len(q.states) == 0 || slices.Contains(q.states, string(e.State)) ||
		isEpisodeOpen(*e) && e.OnHold && slices.Contains(q.states, "held")
	return inState && (q.prints == nil || slices.Contains(q.prints, e.Fingerprint)) && satisfiesMatchers(q.matchers, e.Labels) && containsAll(e, q.words)
}

// containsAll reports whether each of the words occurs in some text of the episode.
func containsAll(e *episodes.Episode, words []string) bool {
	texts := []string{e.Alert, string(e.Line), e.Annotations["summary"]}
	return len(words) == 0 || hasWords(words, slices.AppendSeq(texts, maps.Values(e.Labels))...)
}

func (s *Server) filteredEpisodes(r *http.Request) ([]episodes.Episode, error) {
	q, err := s.readQuery(r)
	if err != nil {
		return nil, err
	}
	var out []episodes.Episode
	for _, e := range s.view.Episodes() {
		if q.selectsEpisode(&e) {
			out = append(out, e)
		}
	}
	sortEpisodes(out)
	return out, nil
}

func satisfiesMatchers(matchers []*labels.Matcher, own map[string]string) bool {
	return !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(own[m.Name]) })
}

// fingerprints returns the fingerprints in the parameter fingerprint, in the form by which the daemon knows them. A nil
// result selects all alerts.
func (s *Server) fingerprints(texts []string) (out []episodes.Fingerprint, err error) {
	if len(texts) > maxMatchers {
		return nil, fmt.Errorf("there are more than %d fingerprints", maxMatchers)
	}
	for _, text := range texts {
		print, ok := s.resolveFingerprint(text)
		if !ok {
			return nil, fmt.Errorf("fingerprint %.40q is not 16 hexadecimal digits", text)
		}
		out = append(out, print)
	}
	return out, nil
}
