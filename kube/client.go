// Package kube is a client of the Kubernetes API: paged lists, watches with a proof of
// progress, and logs. It writes only reviews, which the API server answers and does not
// store, and the Lease of two aggregators.
//
// Configuration and credentials are those of client-go, but requests are not, because its
// dynamic client decodes each page of a list into maps (16 MiB for 250 pods of 8 KiB, where
// this client holds one object), reads error responses without a bound, and its
// tools/watch hides why a watch fails.
package kube

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
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

	_ "k8s.io/client-go/plugin/pkg/client/auth/oidc" // a person's kubeconfig may need it
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	dialWithin  = 10 * time.Second
	keepAlive   = 15 * time.Second
	pingAfter   = 15 * time.Second // silence after which an HTTP/2 connection is pinged
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
	// Context replaces the current context of the kubeconfig, unless it is empty.
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
	conn *conn // nil until the configuration is read
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
	c.disconnect()
}

// disconnect drops the connection, so that the configuration is read again. The caller
// holds mu.
func (c *Client) disconnect() {
	if c.conn != nil {
		for _, t := range c.conn.own {
			t.CloseIdleConnections()
		}
		c.conn = nil
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
		cfg, err := c.personal().ClientConfig()
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

// personal returns the merged kubeconfig of a person.
func (c *Client) personal() clientcmd.ClientConfig {
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

// Place is the context and the namespace that a kubeconfig selects.
type Place struct {
	Context   string // empty in a pod
	Namespace string // namespace of the context, or "default"
}

// Place returns the context of Options.Files, and its namespace.
func (c *Client) Place() (Place, error) {
	config := c.personal()
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
	newClient := func(h2 bool) (*http.Client, error) {
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
	if made.api, err = newClient(true); err != nil {
		return nil, err
	}
	made.logs, err = newClient(false)
	return made, err
}

// noRedirect refuses redirects, because credentials must not follow one.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// forget drops the connection that was refused, unless another one was made meanwhile.
func (c *Client) forget(refused *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == refused {
		c.disconnect()
	}
}

// Logs opens a log. The API answers only when there is something to send, so
// this may wait for as long as ctx lasts. The caller closes the body.
func (c *Client) Logs(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	return c.send(ctx, request{method: http.MethodGet, path: path, query: query, logs: true})
}

// request is one request to the API server.
type request struct {
	method, path string
	query        url.Values
	object       any  // the body, encoded as JSON; nil means none
	logs         bool // a log is read
}

// send sends a request and returns the body of the response. A response other than 200 and
// 201 is an *Error.
func (c *Client) send(ctx context.Context, r request) (io.ReadCloser, error) {
	conn, err := c.connected()
	if err != nil {
		return nil, err
	}
	var object io.Reader
	if r.object != nil {
		in, err := json.Marshal(r.object)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", r.path, err)
		}
		object = bytes.NewReader(in)
	}
	u := *conn.base
	u.Path, u.RawQuery = strings.TrimRight(u.Path, "/")+r.path, r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), object)
	if err != nil {
		return nil, err
	}
	client := conn.logs
	if !r.logs {
		client = conn.api
		req.Header.Set("Accept", "application/json")
	}
	if object != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := client.Do(req)
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
