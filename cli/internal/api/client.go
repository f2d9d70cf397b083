// Package api queries the HTTP API of a running daemon.
package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	commonconfig "github.com/prometheus/common/config"

	"crowsnest/internal/text"
	"crowsnest/redact"
)

// DefaultAddress is the address of a daemon with the default of --web.listen-address.
const DefaultAddress = "http://localhost:9797"

// Limits of one request.
const (
	Timeout   = 10 * time.Second
	maxAnswer = 64 << 20
)

// ErrAddress is the cause of an error about an address that is not a URL.
var ErrAddress = errors.New("not a URL")

// Client queries one daemon. It is safe for concurrent use.
type Client struct {
	base *url.URL
	file string // path of a file with http_config; "" means no file
	http *http.Client
}

// New returns a client for the daemon at address. httpConfig is the path of a file with
// Prometheus' http_config, or "". The error wraps ErrAddress if the address is not a URL.
func New(address, httpConfig string) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(address, "/"))
	if err != nil || base.Host == "" {
		return nil, fmt.Errorf("--url %q is %w; use a value such as %s", address, ErrAddress, DefaultAddress)
	}
	cfg := &commonconfig.HTTPClientConfig{}
	if httpConfig != "" {
		if cfg, _, err = commonconfig.LoadHTTPConfigFile(httpConfig); err != nil {
			return nil, fmt.Errorf("read --http.config.file: %w", err)
		}
	}
	cfg.FollowRedirects = false
	c := &Client{base: base, file: httpConfig}
	c.http, err = commonconfig.NewClientFromConfig(*cfg, "crowsnest")
	return c, err
}

// Address returns the address of the daemon without credentials, to show to people.
func (c *Client) Address() string { return c.base.Redacted() }

// Get returns the data of an endpoint of the API, such as "alerts". Its error messages say what the caller can do.
func (c *Client) Get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	u := c.base.JoinPath("/api/v1/", path)
	u.RawQuery = query.Encode()
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.requestError("query", cmp.Or(errors.Unwrap(err), err))
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, c.requestError("read the answer of", err)
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("the answer of the daemon at %s has more than %d MiB; add matchers to query fewer alerts or episodes", c.Address(), maxAnswer>>20)
	}
	return c.decodeData(res, body)
}

func (c *Client) requestError(verb string, err error) error {
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
		return fmt.Errorf("the daemon at %s did not answer in time (at most %s): it hangs, it is overloaded, or something on the way drops the connection", c.Address(), Timeout)
	}
	return fmt.Errorf("%s the daemon at %s (is it running there?): %w", verb, c.Address(), err)
}

func (c *Client) decodeData(res *http.Response, body []byte) ([]byte, error) {
	var env struct {
		Status string          `json:"status"`
		Error  string          `json:"error"`
		Data   json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(body, &env); err == nil && env.Status == "success" {
		return env.Data, nil
	} else if err == nil && env.Error != "" {
		return nil, fmt.Errorf("the daemon returned an error: %s", redact.Sanitise(env.Error))
	}
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		fix := "name a file with credentials in --http.config.file"
		if c.file != "" {
			fix = "it refuses the credentials of " + c.file
		}
		return nil, fmt.Errorf("the daemon at %s requires authentication (%s): %s", c.Address(), res.Status, fix)
	case http.StatusServiceUnavailable, http.StatusMisdirectedRequest: // with these statuses, the daemon sends a text that explains the problem
		return nil, fmt.Errorf("the daemon at %s refused the request (%s): %s", c.Address(), res.Status, text.Shorten(redact.Sanitise(string(body)), 300))
	}
	return nil, fmt.Errorf("the response of %s is not from crowsnest: %s", c.Address(), res.Status)
}
