package loki

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"crowsnest/sources/internal/rangeread"
)

// client implements rangeread.Client.
type client struct{ *rangeread.HTTP }

func newClient(cfg rangeread.Config, tenant string) rangeread.Client {
	// Without this header, Loki mixes structured metadata into the labels, and one stream
	// becomes many.
	header := map[string]string{"X-Loki-Response-Encoding-Flags": "categorize-labels"}
	if tenant != "" {
		header["X-Scope-OrgID"] = tenant
	}
	return client{rangeread.NewHTTP(cfg, "loki", header, refine)}
}

// Query sends one query and stores the response in a. If the query fails, a holds the
// complete entries of the partial response.
func (c client) Query(ctx context.Context, q rangeread.Query, a *rangeread.Answer) *rangeread.Failure {
	a.Reset()
	values := url.Values{
		"query": {q.Text}, "direction": {"forward"}, "limit": {strconv.Itoa(q.Limit)},
		"start": {strconv.FormatInt(q.From, 10)}, "end": {strconv.FormatInt(q.To, 10)},
	}
	f := c.Get(ctx, "/loki/api/v1/query_range", values, &a.Body)
	if f != nil && f.Reason != rangeread.ReasonTooLarge && f.Reason != rangeread.ReasonBroken && f.Reason != rangeread.ReasonTimeout {
		return f
	}
	if err := (answer{a}).decode(); err != nil && f == nil {
		f = &rangeread.Failure{Reason: rangeread.ReasonMalformed, Err: err}
	}
	return f
}

// ListStreams returns selectors of the streams that have entries around time t. most is the
// largest number of selectors.
func (c client) ListStreams(ctx context.Context, selector string, t int64, most int) ([]string, *rangeread.Failure) {
	values := url.Values{
		"match[]": {selector},
		"start":   {strconv.FormatInt(t-int64(time.Second), 10)}, "end": {strconv.FormatInt(t+int64(time.Second), 10)},
	}
	var body []byte
	if f := c.Get(ctx, "/loki/api/v1/series", values, &body); f != nil {
		return nil, f
	}
	var said struct {
		Data []map[string]string `json:"data"`
	}
	if err := json.Unmarshal(body, &said); err != nil {
		return nil, &rangeread.Failure{Reason: rangeread.ReasonMalformed, Err: fmt.Errorf("this is not a list of streams from Loki: %w", err)}
	}
	return rangeread.ExactSelectors(said.Data[:min(most, len(said.Data))]), nil
}

// refine adds the reason of a response with an error.
func refine(f *rangeread.Failure, code int, said string) {
	switch {
	case strings.Contains(said, "message larger than max") || strings.Contains(said, "message size too large"):
		f.Reason, f.RetryAfter = rangeread.ReasonTooLarge, 0 // a message between components of Loki was too large
	case code == http.StatusBadRequest && strings.Contains(said, "input size too long"),
		code == http.StatusRequestEntityTooLarge || code == http.StatusRequestURITooLong:
		f.Reason, f.Allowed = rangeread.ReasonQuery, parseAllowed(said)
	case code/100 == 5:
	case code == http.StatusBadRequest && strings.Contains(said, "parse error"):
		f.Reason = rangeread.ReasonSyntax
	case strings.Contains(said, "max entries limit"):
		f.Reason, f.Allowed = rangeread.ReasonLimit, parseAllowed(said)
	case strings.Contains(said, "time range exceeds") || strings.Contains(said, "too many bytes"):
		f.Reason = rangeread.ReasonRange
	}
}

// parseAllowed parses the limit in a text like "(6000 > 5000)".
func parseAllowed(said string) int {
	_, said, _ = strings.Cut(said, " > ")
	end := strings.IndexFunc(said, func(r rune) bool { return r < '0' || r > '9' })
	n, err := strconv.Atoi(said[:max(end, 0)])
	if err != nil {
		return 0
	}
	return n
}
