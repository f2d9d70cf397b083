package loki

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"crowsnest/sources/internal/rangeread"
)

// header makes Loki return structured metadata apart from the labels. Otherwise one stream becomes many.
func header(tenant string) map[string]string {
	out := map[string]string{"X-Loki-Response-Encoding-Flags": "categorize-labels"}
	if tenant != "" {
		out["X-Scope-OrgID"] = tenant
	}
	return out
}

func query(q rangeread.Query) (path string, form url.Values) {
	return "/loki/api/v1/query_range", url.Values{
		"query": {q.Text}, "direction": {"forward"}, "limit": {strconv.Itoa(q.Limit)},
		"start": {strconv.FormatInt(q.From, 10)}, "end": {strconv.FormatInt(q.To, 10)},
	}
}

func listStreams(selector string, t int64, _ int) (path string, form url.Values) {
	around := int64(time.Second)
	return "/loki/api/v1/series", url.Values{
		"match[]": {selector}, "start": {strconv.FormatInt(t-around, 10)}, "end": {strconv.FormatInt(t+around, 10)},
	}
}

func decodeStreams(body []byte) ([]map[string]string, error) {
	var said struct {
		Data []map[string]string `json:"data"`
	}
	err := json.Unmarshal(body, &said)
	return said.Data, err
}

// refine sets the reason of an error response.
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
