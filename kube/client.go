// Package kube is a client of the Kubernetes API. It offers paged lists, watches with a proof
// of progress, and logs. The only objects that it writes are reviews, which the API server
// answers and does not store, and the Lease of two aggregators.
//
// Configuration and credentials are those of client-go. The requests are not, for three
// reasons. Its dynamic client decodes each page of a list into maps, which takes 16 MiB for 250
// pods of 8 KiB, while this client holds one object. It reads error responses of any size. Its
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

	_ "k8s.io/client-go/plugin/pkg/client/auth/oidc" // the kubeconfig of a person may need it
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	dialWithin  = 10 * time.Second
	keepAlive   = 15 * time.Second
	pingAfter   = 15 * time.Second // time without data after which an HTTP/2 connection is pinged
	pongWithin  = 15 * time.Second
	idleConns   = 16
	idleTimeout = 90 * time.Second
	userAgent   = "crowsnest"
)

// Options set the API server and the credentials.
type Options struct {
	// Kubeconfig is the path of a kubeconfig. If it is empty, Files is used. If Files is empty
	// too, the service account of this pod is used.
	Kubeconfig string
	// Files are the kubeconfig files of a person, which are merged like kubectl does. Missing
	// files are skipped. If the result has no cluster, the service account of this pod is used.
	Files []string
	// Context replaces the current context of the kubeconfig. If it is empty, the current
	// context is used.
	Context string
	// Transport replaces the network in tests. No configuration is read then.
	Transport http.RoundTripper
}

// Client is a client of one API server. It reads its configuration before the first request,
// and again after the server has refused its credentials. It is safe for concurrent use.
type Client struct {
	opt Options

	mu   sync.Mutex
	conn *conn // nil before the configuration is read
}

// conn holds the HTTP clients that result from one reading of the configuration.
type conn struct {
	base      *url.URL
	api, logs *http.Client
	own       []*http.Transport
}

// New returns a client. It does not read the configuration yet.
func New(opt Options) *Client { return &Client{opt: opt} }

// Close closes idle connections. The client can be used afterwards.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.disconnect()
}

// disconnect drops the connection, so that the next request reads the configuration again. The
// caller holds mu.
func (c *Client) disconnect() {
	if c.conn != nil {
		for _, t := range c.conn.own {
			t.CloseIdleConnections()
		}
		c.conn = nil
	}
}

// connection returns the connection. It makes one if there is none.
func (c *Client) connection() (*conn, error) {
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
	cfg, err := c.restConfig()
	if err != nil {
		return nil, err
	}
	made, err := newConn(cfg)
	if err != nil {
		return nil, err
	}
	c.conn = made
	return made, nil
}

func (c *Client) restConfig() (*rest.Config, error) {
	if len(c.opt.Files) > 0 {
		cfg, err := c.personalConfig().ClientConfig()
		if err != nil {
			return nil, c.explainError(err)
		}
		return cfg, nil
	}
	if c.opt.Kubeconfig == "" {
		cfg, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("this process does not run in a pod; set kubeconfig to a file")
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

// personalConfig returns the merged kubeconfig of a person.
func (c *Client) personalConfig() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{Precedence: c.opt.Files}, &clientcmd.ConfigOverrides{CurrentContext: c.opt.Context})
}

// explainError adds the names of the kubeconfig files to an error about them.
func (c *Client) explainError(err error) error {
	files := strings.Join(c.opt.Files, ", ")
	if clientcmd.IsEmptyConfig(err) {
		return fmt.Errorf("there is no kubeconfig in %s; set KUBECONFIG or --kubeconfig to a file as kubectl uses it", files)
	}
	return fmt.Errorf("read kubeconfig %s: %w", files, err)
}

// Place is a context of a kubeconfig and its namespace.
type Place struct {
	Context   string // name of the context; empty in a pod
	Namespace string // namespace of the context, or "default"
}

// CurrentContext returns the current context of Options.Files and its namespace.
func (c *Client) CurrentContext() (Place, error) {
	config := c.personalConfig()
	raw, err := config.RawConfig()
	if err != nil {
		return Place{}, c.explainError(err)
	}
	if name := c.opt.Context; name != "" && raw.Contexts[name] == nil {
		return Place{}, c.explainError(fmt.Errorf("there is no context %s; use one of %s", name, strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", ")))
	}
	namespace, _, err := config.Namespace()
	if err != nil {
		return Place{}, c.explainError(err)
	}
	return Place{cmp.Or(c.opt.Context, raw.CurrentContext), namespace}, nil
}

// newConn makes two HTTP clients from one configuration. API requests use HTTP/2, whose pings
// detect a dead connection. Logs use HTTP/1.1 with one connection for each log. If a log is
// read slowly, its data wait in the kernel and on the server, and not in this process.
func newConn(cfg *rest.Config) (*conn, error) {
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

// noRedirect refuses redirects, because credentials must not be sent to another address.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// dropRefused drops a connection whose credentials were refused, unless it was replaced.
func (c *Client) dropRefused(refused *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == refused {
		c.disconnect()
	}
}

// OpenLog opens a log. The API answers only when there is data, so OpenLog may wait until ctx
// ends. The caller must close the body.
func (c *Client) OpenLog(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	return c.send(ctx, request{method: http.MethodGet, path: path, query: query, logs: true})
}

// request is one request to the API server.
type request struct {
	method, path string
	query        url.Values
	object       any  // body, which is encoded as JSON; nil means none
	logs         bool // whether the request reads a log
}

// send sends a request and returns the body of the response. If the status is neither 200 nor
// 201, the error is an *Error.
func (c *Client) send(ctx context.Context, r request) (io.ReadCloser, error) {
	conn, err := c.connection()
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
		c.dropRefused(conn)
	}
	return nil, readError(res)
}
