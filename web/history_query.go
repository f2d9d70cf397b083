package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/alertmanager/pkg/labels"
	"github.com/prometheus/common/model"

	"crowsnest/episodes"
	"crowsnest/episodes/history"
)

// pastQuery is a query that selects episodes of the history.
type pastQuery struct {
	matchers     []*labels.Matcher
	words        []string // words in lower case; an episode must contain all of them
	fingerprints []episodes.Fingerprint
	from, to     time.Time // an episode must have been open between these times; a zero time means no limit
	limit        int
	lastShown    *history.Entry // last episode on the previous page, of which only start and fingerprint are set
}

// parsePast reads the parameters of a query. If box is not empty, it is the name of the parameter with the content of a
// search box, which contains matchers and words.
func (s *Server) parsePast(r *http.Request, box string) (q pastQuery, err error) {
	v, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return q, fmt.Errorf("the query cannot be read: %w; encode what is not a letter or digit as %%XX", err)
	}
	filters, words := slices.Concat(v["filter"], v["match[]"]), strings.Join(v["q"], " ")
	if box != "" {
		filters, words = splitSearch(v.Get(box))
	}
	if q.matchers, err = parseFilters(filters); err != nil {
		return q, err
	}
	if len(words) > maxWords {
		return q, fmt.Errorf("the text has %d bytes, at most %d are allowed", len(words), maxWords)
	}
	q.words = strings.Fields(strings.ToLower(words))
	if q.fingerprints, err = s.fingerprints(v["fingerprint"]); err != nil {
		return q, err
	}
	now := s.opt.Now()
	if q.from, err = parseTime("from", v.Get("from"), now); err != nil {
		return q, err
	}
	if q.to, err = parseTime("to", v.Get("to"), now); err != nil {
		return q, err
	}
	q.limit = defaultPast
	if text := v.Get("limit"); text != "" {
		if q.limit, err = strconv.Atoi(text); err != nil || q.limit < 0 || q.limit > maxPast {
			return q, fmt.Errorf("limit %.40q is not a number from 0 to %d", text, maxPast)
		}
	}
	q.lastShown, err = parseCursor(v.Get("after"))
	return q, err
}

// splitSearch splits the content of a search box into matchers and words.
func splitSearch(text string) (filters []string, words string) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "{") {
		if end := indexUnquoted(text, "}"); end < len(text) {
			filters, text = append(filters, text[:end+1]), text[end+1:]
		}
	}
	var rest []string
	for _, part := range splitUnquoted(text, " \t\n") {
		if matcherForm.MatchString(part) {
			filters = append(filters, strings.TrimSuffix(part, ","))
		} else {
			rest = append(rest, part)
		}
	}
	return filters, strings.Join(rest, " ")
}

// parseTime parses RFC 3339, a day, seconds since 1970, or a duration before now, such as 7d.
func parseTime(name, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(form, text); err == nil {
			return t.UTC(), nil
		}
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil && n >= 0 && n < 1e11 {
		return time.UnixMilli(int64(n * 1000)).UTC(), nil
	}
	if d, err := model.ParseDuration(text); err == nil {
		return now.Add(-time.Duration(d)).UTC(), nil
	}
	return time.Time{}, fmt.Errorf("%s %.40q is not a time; write 2026-03-11T04:00:00Z, 2026-03-11, seconds since 1970, or 7d for seven days ago", name, text)
}

// historyCursor returns a string that identifies the position of an episode in the history.
func historyCursor(x *history.Entry) string {
	return strconv.FormatInt(x.StartsAt.UnixNano(), 10) + "-" + episodes.Fingerprint(x.Fingerprint).String()
}

// parseCursor parses the result of historyCursor. It returns nil if the text is empty.
func parseCursor(text string) (*history.Entry, error) {
	if text == "" {
		return nil, nil
	}
	at, print, _ := strings.Cut(text, "-")
	n, err := strconv.ParseInt(at, 10, 64)
	fp, ok := parseFingerprint(print)
	if err != nil || !ok {
		return nil, fmt.Errorf("the parameter `after` is %.40q, but must be the value of `next` in an earlier response", text)
	}
	return &history.Entry{StartsAt: time.Unix(0, n).UTC(), Fingerprint: uint64(fp)}, nil
}

// selectsEntry reports whether the query selects an episode. It ignores the times in the query.
func (q *pastQuery) selectsEntry(x *history.Entry, more map[string]string) bool {
	if q.fingerprints != nil && !slices.Contains(q.fingerprints, episodes.Fingerprint(x.Fingerprint)) {
		return false
	}
	if len(q.matchers)+len(q.words) == 0 {
		return true
	}
	all := withLabels(x.Labels, more)
	return satisfiesMatchers(q.matchers, all) && pastContains(x, all, q.words)
}

func pastContains(x *history.Entry, all map[string]string, words []string) bool {
	texts := []string{x.Alert, x.Pack, x.Summary}
	for name, value := range all {
		texts = append(texts, name+"="+value)
	}
	return len(words) == 0 || hasWords(words, texts...)
}

// isWithin reports whether an episode was open between the times in the query.
func (q *pastQuery) isWithin(x *history.Entry) bool {
	return (q.from.IsZero() || !x.EndsAt.Before(q.from)) && (q.to.IsZero() || x.StartsAt.Before(q.to))
}
