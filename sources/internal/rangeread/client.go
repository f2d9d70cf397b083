package rangeread

import (
	"context"
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

	"crowsnest/internal/httpconfig"
)

// Limits of one request.
const (
	maxBody     = 8 << 20  // largest number of bytes of a response, unless Config.MaxBody is set
	maxKeptBody = 2 << 20  // largest buffer that is kept for the next response, in bytes
	maxRefusal  = 64 << 10 // number of bytes of an error response that are read
	maxWords    = 300      // number of bytes of an error response that are shown
	maxURL      = 2 << 10  // largest number of bytes of a URL; longer requests use POST
	maxWait     = time.Minute
)

// Query is a request for the entries of a time range, from old to new. The range includes From and excludes To.
type Query struct {
	Text     string // query as Dialect describes it
	From, To int64  // start and end of the range, in ns since 1970
	Limit    int    // largest number of entries in the response; the server returns the oldest ones
}

// exactSelectors returns one selector for each stream. A selector matches no other stream. It also requires the absence
// of some labels, because another stream may have the same labels and additional ones.
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

// Client sends requests to one server on behalf of one tenant. It is not safe for concurrent use.
type Client struct {
	dialect *Dialect
	tenant  string
	base    string
	timeout time.Duration
	maxBody int
	lazy    httpconfig.Lazy
}

// NewClient returns a client for the server of a configuration. "" means that requests name no tenant.
func NewClient(d *Dialect, cfg Config, tenant string) *Client {
	return &Client{
		dialect: d, tenant: tenant, base: strings.TrimRight(cfg.URL, "/"), timeout: cfg.Timeout, maxBody: cfg.MaxBody,
		lazy: httpconfig.Lazy{Config: cfg.HTTP, Name: d.Key, UserAgent: "crowsnest", Idle: time.Minute, Transport: cfg.Transport},
	}
}

// Close closes idle connections.
func (c *Client) Close() { c.lazy.Close() }

// Query sends one query and stores the response in a. If the query fails, a holds the complete
// entries of the partial response.
func (c *Client) Query(ctx context.Context, q Query, a *Answer) *Failure {
	a.Reset()
	path, form := c.dialect.Query(q)
	f := c.get(ctx, path, form, &a.Body)
	if f != nil && f.Reason != ReasonTooLarge && f.Reason != ReasonBroken && f.Reason != ReasonTimeout {
		return f
	}
	if err := c.dialect.Decode(a); err != nil && f == nil {
		f = &Failure{Reason: ReasonMalformed, Err: fmt.Errorf("this is not a response from %s: %w", c.dialect.Server, err)}
	}
	return f
}

// listStreams returns one selector for each stream that has entries around time t. most is the largest number of
// selectors.
func (c *Client) listStreams(ctx context.Context, selector string, t int64, most int) ([]string, *Failure) {
	path, form := c.dialect.ListStreams(selector, t, most)
	var body []byte
	if f := c.get(ctx, path, form, &body); f != nil {
		return nil, f
	}
	streams, err := c.dialect.DecodeStreams(body)
	if err != nil {
		return nil, &Failure{Reason: ReasonMalformed, Err: fmt.Errorf("this is not a list of streams from %s: %w", c.dialect.Server, err)}
	}
	return exactSelectors(streams[:min(most, len(streams))]), nil
}

// get requests a path below the base address, and stores the response in body. If the request fails with
// ReasonTooLarge, ReasonBroken or ReasonTimeout, body holds the beginning of the response.
func (c *Client) get(ctx context.Context, path string, values url.Values, body *[]byte) *Failure {
	client, err := c.lazy.Client()
	if err != nil {
		return &Failure{Reason: ReasonConfig, Err: fmt.Errorf("http_config: %w", err)}
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := c.newRequest(ctx, path, values)
	if err != nil {
		return &Failure{Reason: ReasonConfig, Err: err}
	}
	resp, err := client.Do(req)
	if err != nil {
		timeout, cause := httpconfig.DescribeNoResponse(err)
		if timeout {
			return &Failure{Reason: ReasonTimeout, Err: errors.New("no answer in time")}
		}
		return &Failure{Reason: ReasonConnection, Err: errors.New(shortenMessage(cause.Error()))}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) //nolint:errcheck // even a part of the response is shown
		f := classifyError(resp, string(said))
		if f.Reason == ReasonRefused || f.Reason == ReasonServerError {
			c.dialect.Refine(f, resp.StatusCode, string(said))
		}
		return f
	}
	if c.dialect.NeedsEnd && resp.ContentLength < 0 && resp.ProtoMajor == 1 && !slices.Contains(resp.TransferEncoding, "chunked") {
		return &Failure{Reason: ReasonMalformed, Err: errors.New("the response does not show where it ends; let the proxy in front of the server use HTTP/1.1")}
	}
	if enc := resp.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return &Failure{Reason: ReasonMalformed, Err: fmt.Errorf("the response is compressed (%s), which the request did not allow", shortenMessage(enc))}
	}
	*body, err = readAll(resp.Body, (*body)[:0], c.maxBody)
	switch {
	case err != nil && ctx.Err() != nil:
		return &Failure{Reason: ReasonTimeout, Err: errors.New("the response did not end in time")}
	case err != nil:
		return &Failure{Reason: ReasonBroken, Err: fmt.Errorf("the response broke off: %w", err)}
	case len(*body) > c.maxBody:
		return &Failure{Reason: ReasonTooLarge, Err: fmt.Errorf("the response exceeds %d MiB", c.maxBody>>20)}
	}
	return nil
}

func (c *Client) newRequest(ctx context.Context, path string, values url.Values) (*http.Request, error) {
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
	for name, value := range c.dialect.Header(c.tenant) {
		req.Header.Set(name, value)
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
	ReasonConnection  = "connection"   // the connection failed or broke
	ReasonTimeout     = "timeout"      // no response in time
	ReasonBroken      = "broken"       // the response ended before it was complete
	ReasonMalformed   = "malformed"    // the response does not have the form of this kind of server
	ReasonTooLarge    = "too_large"    // the response has too many bytes
	ReasonRedirect    = "redirect"     // HTTP status 3xx
	ReasonAuth        = "auth"         // HTTP status 401 or 403
	ReasonRateLimited = "rate_limited" // HTTP status 429
	ReasonServerError = "server_error" // HTTP status 5xx
	ReasonLimit       = "limit"        // 400, because too many entries were requested
	ReasonRange       = "range"        // 400, because the time range is too long or contains too much data
	ReasonQuery       = "query_length" // 400, 413 or 414, because the query is too long
	ReasonSyntax      = "syntax"       // 400, because the server does not understand the query
	ReasonRefused     = "refused"      // other HTTP status 4xx
	ReasonConfig      = "config"       // the client cannot be created, because a TLS or secret file is unusable
)

var failureReasons = []string{
	ReasonConnection, ReasonTimeout, ReasonBroken, ReasonMalformed, ReasonTooLarge, ReasonRedirect, ReasonAuth,
	ReasonRateLimited, ReasonServerError, ReasonLimit, ReasonRange, ReasonQuery, ReasonSyntax, ReasonRefused, ReasonConfig,
}

// Failure describes why a request failed.
type Failure struct {
	Reason     string
	Err        error
	RetryAfter time.Duration // delay that the server asked for; zero if none
	Allowed    int           // limit of the server that the request exceeded; zero if unknown
}

// classifyError returns the failure that an error response describes. said is the text of the response.
func classifyError(resp *http.Response, said string) *Failure {
	code := resp.StatusCode
	f := &Failure{Reason: ReasonRefused, Err: fmt.Errorf("status %d: %s", code, shortenMessage(said))}
	switch {
	case code/100 == 3:
		f.Reason = ReasonRedirect
		to := "elsewhere"
		if u, err := resp.Location(); err == nil {
			to = shortenMessage(u.Scheme + "://" + u.Host)
		}
		f.Err = fmt.Errorf("status %d: it redirects to %s, which is not followed; put the final address into url", code, to)
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		f.Reason = ReasonAuth
		f.Err = fmt.Errorf("status %d: %s; check http_config and tenants", code, shortenMessage(said))
	case code == http.StatusTooManyRequests:
		f.Reason, f.RetryAfter = ReasonRateLimited, httpconfig.RetryAfter(resp.Header, maxWait)
	case code == http.StatusRequestTimeout || code == http.StatusGatewayTimeout:
		f.Reason = ReasonTimeout
	case code/100 == 5:
		f.Reason, f.RetryAfter = ReasonServerError, httpconfig.RetryAfter(resp.Header, maxWait)
	}
	return f
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
