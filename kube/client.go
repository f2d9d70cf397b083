// Package kube is a client of the Kubernetes API, as plain JSON over HTTP: paged lists,
// watches, and streams of logs. What it writes are reviews, which the API server answers
// and does not store, and the Lease of two aggregators.
package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	_ "k8s.io/client-go/plugin/pkg/client/auth/oidc" // for the kubeconfig of a person
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	dialWithin  = 10 * time.Second
	keepAlive   = 15 * time.Second
	pingAfter   = 15 * time.Second // of silence on a connection of HTTP/2
	pongWithin  = 15 * time.Second
	idleConns   = 16
	idleTimeout = 90 * time.Second
	userAgent   = "crowsnest"
)

// Options set the API server and the credentials.
type Options struct {
	// Kubeconfig is a file; "" means Files, or without them the service account of the
	// pod that this program runs in.
	Kubeconfig string
	// Files are the kubeconfig of a person, merged as kubectl does; files that do not
	// exist are left out. If they name no cluster, the service account is used.
	Files []string
	// Context replaces the current context of the kubeconfig; "": that is used.
	Context string
	// Transport replaces the network in tests; no configuration is read then.
	Transport http.RoundTripper
}

// Client is a client of one API server. It reads its configuration at the first
// request, and again after the server refused its credentials. Safe for concurrent
// use.
type Client struct {
	opt Options

	mu   sync.Mutex
	conn *conn // nil: not made from the configuration yet
}

// conn holds the clients made from one reading of the configuration.
type conn struct {
	base      *url.URL
	api, logs *http.Client
	own       []*http.Transport
}

// New returns a client. It reads nothing yet.
func New(opt Options) *Client { return &Client{opt: opt} }

// Close closes idle connections. The client can still be used.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		c.conn.close()
		c.conn = nil
	}
}

func (c *conn) close() {
	for _, t := range c.own {
		t.CloseIdleConnections()
	}
}

// connected returns the connection, and makes it if there is none.
func (c *Client) connected() (*conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		return c.conn, nil
	}
	if rt := c.opt.Transport; rt != nil {
		h := &http.Client{Transport: rt, CheckRedirect: noRedirect}
		c.conn = &conn{base: &url.URL{Scheme: "https", Host: "kubernetes.test"}, api: h, logs: h}
		return c.conn, nil
	}
	cfg, err := c.config()
	if err != nil {
		return nil, err
	}
	made, err := connect(cfg)
	if err != nil {
		return nil, err
	}
	c.conn = made
	return made, nil
}

func (c *Client) config() (*rest.Config, error) {
	if len(c.opt.Files) > 0 {
		cfg, err := c.ofPerson().ClientConfig()
		if err != nil {
			return nil, c.explain(err)
		}
		return cfg, nil
	}
	if c.opt.Kubeconfig == "" {
		cfg, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("this is not a pod of a cluster: set kubeconfig to a file")
		}
		if err != nil {
			return nil, fmt.Errorf("read the service account of this pod: %w; set automountServiceAccountToken: true", err)
		}
		return cfg, nil
	}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: c.opt.Kubeconfig}
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", c.opt.Kubeconfig, err)
	}
	return cfg, nil
}

// ofPerson returns the merged kubeconfig of a person.
func (c *Client) ofPerson() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{Precedence: c.opt.Files}, &clientcmd.ConfigOverrides{CurrentContext: c.opt.Context})
}

// explain adds to an error of the kubeconfig which files it is about.
func (c *Client) explain(err error) error {
	files := strings.Join(c.opt.Files, ", ")
	if clientcmd.IsEmptyConfig(err) {
		return fmt.Errorf("there is no kubeconfig in %s; set KUBECONFIG or --kubeconfig to a file as kubectl uses it", files)
	}
	return fmt.Errorf("read kubeconfig %s: %w", files, err)
}

// Place is what a kubeconfig says beside the API server and the credentials.
type Place struct {
	Context   string // "": that of a pod
	Namespace string // namespace of the context, or "default"
}

// Place returns the context of Options.Files, and its namespace.
func (c *Client) Place() (Place, error) {
	config := c.ofPerson()
	raw, err := config.RawConfig()
	if err != nil {
		return Place{}, c.explain(err)
	}
	if name := c.opt.Context; name != "" && raw.Contexts[name] == nil {
		return Place{}, c.explain(fmt.Errorf("there is no context %s; use one of %s", name, strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", ")))
	}
	namespace, _, err := config.Namespace()
	if err != nil {
		return Place{}, c.explain(err)
	}
	return Place{cmp.Or(c.opt.Context, raw.CurrentContext), namespace}, nil
}

// connect makes two clients of one configuration. API requests use HTTP/2, whose
// pings find a dead connection. Logs use HTTP/1.1, one connection each: what a slow
// reader has not read waits in the kernel and on the server, and not in this
// process.
func connect(cfg *rest.Config) (*conn, error) {
	cfg.UserAgent = userAgent
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("read the address of the API server: %w", err)
	}
	made := &conn{base: base}
	one := func(h2 bool) (*http.Client, error) {
		tlsConfig, err := rest.TLSConfigFor(cfg)
		if err != nil {
			return nil, fmt.Errorf("read the certificates for the API server: %w", err)
		}
		t := &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: dialWithin, KeepAlive: keepAlive}).DialContext,
			TLSClientConfig:     tlsConfig,
			TLSHandshakeTimeout: dialWithin,
			DisableCompression:  true,
			MaxIdleConnsPerHost: idleConns,
			IdleConnTimeout:     idleTimeout,
			Protocols:           new(http.Protocols),
			HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pongWithin},
		}
		if cfg.Proxy != nil {
			t.Proxy = cfg.Proxy
		}
		if cfg.Dial != nil {
			t.DialContext = cfg.Dial
		}
		t.Protocols.SetHTTP1(true)
		t.Protocols.SetHTTP2(h2)
		rt, err := rest.HTTPWrappersForConfig(cfg, t)
		if err != nil {
			return nil, fmt.Errorf("read the credentials for the API server: %w", err)
		}
		made.own = append(made.own, t)
		return &http.Client{Transport: rt, CheckRedirect: noRedirect}, nil
	}
	if made.api, err = one(true); err != nil {
		return nil, err
	}
	made.logs, err = one(false)
	return made, err
}

// noRedirect: credentials must not follow one.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// forget drops the connection, if it still is the one that was refused, so that the
// configuration is read again.
func (c *Client) forget(refused *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == refused && c.opt.Transport == nil {
		c.conn.close()
		c.conn = nil
	}
}

// Logs opens a log. The API answers only when there is something to send, so
// this may wait for as long as ctx lasts. The caller closes the body.
func (c *Client) Logs(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	return c.get(ctx, path, query, true)
}

// get sends a GET request. An answer other than 200 is an *Error.
func (c *Client) get(ctx context.Context, path string, query url.Values, logs bool) (io.ReadCloser, error) {
	return c.send(ctx, request{method: http.MethodGet, path: path, query: query, logs: logs})
}

// request is one request to the API server.
type request struct {
	method, path string
	query        url.Values
	object       io.Reader // JSON, or nil
	logs         bool      // a log is read
}

// send sends a request. An answer other than 200 and 201 is an *Error.
func (c *Client) send(ctx context.Context, r request) (io.ReadCloser, error) {
	conn, err := c.connected()
	if err != nil {
		return nil, err
	}
	u := *conn.base
	u.Path, u.RawQuery = join(u.Path, r.path), r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), r.object)
	if err != nil {
		return nil, err
	}
	if r.object != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	h := conn.api
	if r.logs {
		h = conn.logs
	} else {
		req.Header.Set("Accept", "application/json")
	}
	res, err := h.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusOK || res.StatusCode == http.StatusCreated {
		return res.Body, nil
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusUnauthorized {
		c.forget(conn)
	}
	return nil, readError(res)
}

func join(base, path string) string {
	for len(base) > 0 && base[len(base)-1] == '/' {
		base = base[:len(base)-1]
	}
	return base + path
}
