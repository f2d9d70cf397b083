package loki

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"crowsnest/httpconfig"
)

// Limits of one request.
const (
	maxBody     = 8 << 20  // largest number of bytes of a response, unless Config.MaxBody is set
	maxKeptBody = 2 << 20  // largest buffer that is kept for the next response, in bytes
	maxRefusal  = 16 << 10 // number of bytes of an error response that are read
	maxWords    = 300      // number of bytes of an error response that are shown
	maxURL      = 2 << 10  // largest number of bytes of a URL; longer requests use POST
	maxWait     = time.Minute
)

// query is a request for the entries of a time range, from old to new. The range includes from
// and excludes to.
type query struct {
	logql    string
	from, to int64 // start and end of the range, in ns since 1970
	limit    int
}

// client sends requests to one Loki on behalf of one tenant. It is not safe for concurrent use.
type client struct {
	base   string
	tenant string
	cfg    Config
	http   httpconfig.Lazy
}

func newClient(cfg Config, tenant string) *client {
	cfg.MaxBody = cmp.Or(cfg.MaxBody, maxBody)
	return &client{
		base: strings.TrimRight(cfg.URL, "/"), tenant: tenant, cfg: cfg,
		http: httpconfig.Lazy{Config: cfg.HTTP, Name: "loki", UserAgent: "crowsnest", Idle: time.Minute, Transport: cfg.Transport},
	}
}

// sendQuery sends one query and stores the response in a. If the query fails, a holds the
// complete entries of the partial response.
func (c *client) sendQuery(ctx context.Context, q query, a *answer) *failure {
	a.reset()
	values := url.Values{
		"query": {q.logql}, "direction": {"forward"}, "limit": {strconv.Itoa(q.limit)},
		"start": {strconv.FormatInt(q.from, 10)}, "end": {strconv.FormatInt(q.to, 10)},
	}
	f := c.get(ctx, "/loki/api/v1/query_range", values, &a.body)
	if f != nil && f.reason != reasonTooLarge && f.reason != reasonBroken && f.reason != reasonTimeout {
		return f
	}
	if err := a.decode(); err != nil && f == nil {
		f = &failure{reason: reasonMalformed, err: err}
	}
	return f
}

// listStreams returns selectors of the streams that have entries around time t. most is the
// largest number of selectors.
func (c *client) listStreams(ctx context.Context, selector string, t int64, most int) ([]string, *failure) {
	values := url.Values{
		"match[]": {selector},
		"start":   {strconv.FormatInt(t-second, 10)}, "end": {strconv.FormatInt(t+second, 10)},
	}
	var body []byte
	if f := c.get(ctx, "/loki/api/v1/series", values, &body); f != nil {
		return nil, f
	}
	var said struct {
		Data []map[string]string `json:"data"`
	}
	if err := json.Unmarshal(body, &said); err != nil {
		return nil, &failure{reason: reasonMalformed, err: fmt.Errorf("this is not a list of streams from Loki: %w", err)}
	}
	return exactSelectors(said.Data[:min(most, len(said.Data))]), nil
}

// exactSelectors returns one selector for each stream, which matches only this stream. A
// selector also requires the absence of labels, because another stream may have the same
// labels and more.
func exactSelectors(streams []map[string]string) []string {
	names := map[string]bool{}
	for _, labels := range streams {
		for name := range labels {
			names[name] = true
		}
	}
	var out []string
	for _, labels := range streams {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(names)) {
			parts = append(parts, name+"="+strconv.Quote(labels[name]))
		}
		out = append(out, "{"+strings.Join(parts, ", ")+"}")
	}
	return out
}

func (c *client) get(ctx context.Context, path string, values url.Values, body *[]byte) *failure {
	client, err := c.http.Client()
	if err != nil {
		return &failure{reason: reasonConfig, err: fmt.Errorf("http_config: %w", err)}
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	req, err := c.newRequest(ctx, path, values)
	if err != nil {
		return &failure{reason: reasonConfig, err: err}
	}
	resp, err := client.Do(req)
	if err != nil {
		timeout, cause := httpconfig.DescribeNoResponse(err)
		if timeout {
			return &failure{reason: reasonTimeout, err: errors.New("no answer in time")}
		}
		return &failure{reason: reasonConnection, err: errors.New(shortenMessage(cause.Error()))}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) //nolint:errcheck // even a part of the response is shown
		return classifyError(resp, string(said))
	}
	if enc := resp.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return &failure{reason: reasonMalformed, err: fmt.Errorf("the response is compressed (%s), which the request did not allow", shortenMessage(enc))}
	}
	*body, err = readAll(resp.Body, (*body)[:0], c.cfg.MaxBody)
	switch {
	case err != nil && ctx.Err() != nil:
		return &failure{reason: reasonTimeout, err: errors.New("the response did not end in time")}
	case err != nil:
		return &failure{reason: reasonBroken, err: fmt.Errorf("the response broke off: %w", err)}
	case len(*body) > c.cfg.MaxBody:
		return &failure{reason: reasonTooLarge, err: fmt.Errorf("the response exceeds %d MiB", c.cfg.MaxBody>>20)}
	}
	return nil
}

func (c *client) newRequest(ctx context.Context, path string, values url.Values) (*http.Request, error) {
	method, address, form := http.MethodGet, c.base+path+"?"+values.Encode(), io.Reader(http.NoBody)
	if len(address) > maxURL {
		method, address, form = http.MethodPost, c.base+path, strings.NewReader(values.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, method, address, form)
	if err != nil {
		return nil, err
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	// Without this header, Loki mixes structured metadata into the labels, and one stream
	// becomes many.
	req.Header.Set("X-Loki-Response-Encoding-Flags", "categorize-labels")
	if c.tenant != "" {
		req.Header.Set("X-Scope-OrgID", c.tenant)
	}
	return req, nil
}

// readAll reads r and appends to b, until b has one byte more than most.
func readAll(r io.Reader, b []byte, most int) ([]byte, error) {
	for {
		if len(b) == cap(b) {
			b = slices.Grow(b, max(64<<10, len(b)/2))
		}
		n, err := r.Read(b[len(b):min(cap(b), most+1)])
		b = b[:len(b)+n]
		switch {
		case errors.Is(err, io.EOF) || len(b) > most:
			return b, nil
		case err != nil:
			return b, err
		}
	}
}

// Reasons why a request fails, as they appear in metrics and in the API.
const (
	reasonConnection  = "connection"   // the connection failed or broke
	reasonTimeout     = "timeout"      // no response in time
	reasonBroken      = "broken"       // the response ended before it was complete
	reasonMalformed   = "malformed"    // the response does not come from a Loki
	reasonTooLarge    = "too_large"    // the response has too many bytes
	reasonRedirect    = "redirect"     // HTTP status 3xx
	reasonAuth        = "auth"         // HTTP status 401 or 403
	reasonRateLimited = "rate_limited" // HTTP status 429
	reasonServerError = "server_error" // HTTP status 5xx
	reasonLimit       = "limit"        // 400, because too many entries were requested
	reasonRange       = "range"        // 400, because the time range is too long or contains too much data
	reasonQuery       = "query_length" // 400, 413 or 414, because the query is too long
	reasonSyntax      = "syntax"       // 400, because the server does not understand the query
	reasonRefused     = "refused"      // other HTTP status 4xx
	reasonConfig      = "config"       // the client cannot be created, because a TLS or secret file is unusable
)

var failureReasons = []string{
	reasonConnection, reasonTimeout, reasonBroken, reasonMalformed, reasonTooLarge, reasonRedirect, reasonAuth,
	reasonRateLimited, reasonServerError, reasonLimit, reasonRange, reasonQuery, reasonSyntax, reasonRefused, reasonConfig,
}

// failure describes why a request failed.
type failure struct {
	reason     string
	err        error
	retryAfter time.Duration // delay that the server asked for; zero if none
	allowed    int           // limit of the server that the request exceeded; zero if unknown
}

// classifyError returns the failure that an error response describes. said is the text of the
// response.
func classifyError(resp *http.Response, said string) *failure {
	code := resp.StatusCode
	f := &failure{reason: reasonRefused, err: fmt.Errorf("status %d: %s", code, shortenMessage(said))}
	switch {
	case code/100 == 3:
		f.reason = reasonRedirect
		to := "elsewhere"
		if u, err := resp.Location(); err == nil {
			to = shortenMessage(u.Scheme + "://" + u.Host)
		}
		f.err = fmt.Errorf("status %d: it redirects to %s, which is not followed; put the final address into url", code, to)
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		f.reason = reasonAuth
		f.err = fmt.Errorf("status %d: %s; check http_config and tenants", code, shortenMessage(said))
	case code == http.StatusTooManyRequests:
		f.reason, f.retryAfter = reasonRateLimited, httpconfig.RetryAfter(resp.Header, maxWait)
	case code == http.StatusRequestTimeout || code == http.StatusGatewayTimeout:
		f.reason = reasonTimeout
	case strings.Contains(said, "message larger than max") || strings.Contains(said, "message size too large"):
		f.reason = reasonTooLarge // a message between components of Loki was too large
	case code == http.StatusBadRequest && strings.Contains(said, "input size too long"),
		code == http.StatusRequestEntityTooLarge || code == http.StatusRequestURITooLong:
		f.reason, f.allowed = reasonQuery, parseAllowed(said)
	case code/100 == 5:
		f.reason, f.retryAfter = reasonServerError, httpconfig.RetryAfter(resp.Header, maxWait)
	case code == http.StatusBadRequest && strings.Contains(said, "parse error"):
		f.reason = reasonSyntax
	case strings.Contains(said, "max entries limit"):
		f.reason, f.allowed = reasonLimit, parseAllowed(said)
	case strings.Contains(said, "time range exceeds") || strings.Contains(said, "too many bytes"):
		f.reason = reasonRange
	}
	return f
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

// shortenMessage makes one short printable line of a message from another system.
func shortenMessage(s string) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "?"), func(r rune) bool { return r <= ' ' || !strconv.IsPrint(r) }), " ")
	for n := min(len(s), maxWords); n < len(s); n-- {
		if s[n]&0xC0 != 0x80 {
			return s[:n] + "..."
		}
	}
	return s
}
