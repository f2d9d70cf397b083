// Package kube is a client of the Kubernetes API. It offers paged lists, watches with a proof of progress, and logs. It
// writes only two kinds of objects: reviews, which the API server answers and does not store, and the Lease of two
// aggregators.
//
// Configuration and credentials come from client-go. The requests do not, for three reasons. First, client-go's dynamic
// client decodes each page of a list into maps, which takes 16 MiB for 250 pods of 8 KiB, while this client holds one
// object at a time. Second, the dynamic client reads error responses of any size. Third, client-go's tools/watch hides
// the reason why a watch fails.
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
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	_ "k8s.io/client-go/plugin/pkg/client/auth/oidc" // authentication provider that the kubeconfig of a person may use
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	dialWithin  = 10 * time.Second
	keepAlive   = 15 * time.Second
	pingAfter   = 15 * time.Second // idle time after which an HTTP/2 connection is checked with a ping
	pongWithin  = 15 * time.Second
	idleConns   = 16
	idleTimeout = 90 * time.Second
	userAgent   = "crowsnest"
)

// Options set the API server and the credentials.
type Options struct {
	// Kubeconfig is the path of a kubeconfig. If it is empty, Files are used. If Files are empty too, the service
	// account of this pod is used.
	Kubeconfig string
	// Files are the paths of a person's kubeconfig files, which are merged as kubectl does. Missing files are skipped.
	// If the result has no cluster, the service account of this pod is used.
	Files []string
	// Context is the name of the context to use. Empty means the current context of the kubeconfig.
	Context string
	// Transport replaces the network in tests. If it is set, no configuration is read.
	Transport http.RoundTripper
}

// Client is a client of one API server. It reads its configuration before the first request, and again after the server
// has refused its credentials. It is safe for concurrent use.
type Client struct {
	opt Options

	mu   sync.Mutex
	conn *conn // current connection; nil until the configuration is read
}

// conn holds the HTTP clients that result from one reading of the configuration.
type conn struct {
	base      *url.URL
	api, logs *http.Client
	own       []*http.Transport
}

// New returns a client. It does not read the configuration yet.
func New(opt Options) *Client { return &Client{opt: opt} }

// Close closes idle connections. The client can still be used afterwards.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.disconnect()
}

// disconnect drops the connection, so that the next request reads the configuration again. The caller holds mu.
func (c *Client) disconnect() {
	if c.conn != nil {
		for _, t := range c.conn.own {
			t.CloseIdleConnections()
		}
		c.conn = nil
	}
}

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

func (c *Client) personalConfig() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{Precedence: c.opt.Files}, &clientcmd.ConfigOverrides{CurrentContext: c.opt.Context})
}

func (c *Client) explainError(err error) error {
	files := strings.Join(c.opt.Files, ", ")
	if clientcmd.IsEmptyConfig(err) {
		return fmt.Errorf("there is no kubeconfig in %s; set KUBECONFIG or --kubeconfig to a file as kubectl uses it", files)
	}
	return fmt.Errorf("read kubeconfig %s: %w", files, err)
}

// ContextNamespace is a context of a kubeconfig and its namespace.
type ContextNamespace struct {
	Context   string // name of the context; empty in a pod
	Namespace string // namespace of the context, or "default"
}

// CurrentContext returns the current context of Options.Files and its namespace.
func (c *Client) CurrentContext() (ContextNamespace, error) {
	config := c.personalConfig()
	raw, err := config.RawConfig()
	if err != nil {
		return ContextNamespace{}, c.explainError(err)
	}
	if name := c.opt.Context; name != "" && raw.Contexts[name] == nil {
		return ContextNamespace{}, c.explainError(fmt.Errorf("there is no context %s; use one of %s", name, strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", ")))
	}
	namespace, _, err := config.Namespace()
	if err != nil {
		return ContextNamespace{}, c.explainError(err)
	}
	return ContextNamespace{cmp.Or(c.opt.Context, raw.CurrentContext), namespace}, nil
}

// newConn returns two HTTP clients. API requests use HTTP/2, whose pings detect a dead connection. Logs use HTTP/1.1,
// because data that is read slowly then waits in the kernel and on the server.
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

// OpenLog opens a log. The API server does not answer until there is data, so OpenLog may wait until ctx ends. The
// caller must close the body.
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

// send returns the body of the response. A status other than 200 and 201 results in an *Error.
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
		c.mu.Lock()
		if c.conn == conn { // no other request has replaced the connection yet
			c.disconnect()
		}
		c.mu.Unlock()
	}
	return nil, readError(res)
}

const (
	// pageSize is the number of objects per request.
	pageSize = 250
	// maxObject is the maximum size of one object in bytes. etcd accepts 1.5 MiB.
	maxObject  = 8 << 20
	maxPages   = 10000
	pageWithin = time.Minute
	// watchFor is the time after which the server is asked to end a watch. The server may take up to a minute longer.
	// After that, the client ends the watch.
	watchFor   = 4 * time.Minute
	watchGrace = 30 * time.Second
	// silentFor is the time without messages, including bookmarks, after which a watch is opened again, because its
	// connection may be dead without an error.
	silentFor = 90 * time.Second
	// openWithin is the time in which the server must answer a request for a watch.
	openWithin = 30 * time.Second
)

// errTooLarge means that the server sent a value that is larger than any object.
var errTooLarge = errors.New("an object is larger than 8 MiB")

// Get reads one object into out.
func (c *Client) Get(ctx context.Context, path string, query url.Values, out any) error {
	return c.call(ctx, request{method: http.MethodGet, path: path, query: query}, out)
}

// Create posts an object and decodes the response into out. out may be object.
func (c *Client) Create(ctx context.Context, path string, object, out any) error {
	return c.call(ctx, request{method: http.MethodPost, path: path, object: object}, out)
}

// Replace replaces the object at path. The request fails unless object has the newest resource version. Replace decodes
// the response into out, which may be object.
func (c *Client) Replace(ctx context.Context, path string, object, out any) error {
	return c.call(ctx, request{method: http.MethodPut, path: path, object: object}, out)
}

// call sends a request and decodes the response, which is one object, into out.
func (c *Client) call(ctx context.Context, r request, out any) error {
	ctx, cancel := context.WithTimeout(ctx, pageWithin)
	defer cancel()
	body, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := newDecoder(body).Decode(out); err != nil {
		return fmt.Errorf("read %s: %w", r.path, err)
	}
	return nil
}

// List reads all objects in pages, and calls each for every object. It returns the resource version from which to
// watch. each must not keep a reference to its argument.
func (c *Client) List(ctx context.Context, path string, query url.Values, each func(json.RawMessage) error) (version string, err error) {
	q := maps.Clone(query)
	if q == nil {
		q = url.Values{}
	}
	q.Set("limit", strconv.Itoa(pageSize))
	for range maxPages {
		page, err := c.listPage(ctx, path, q, each)
		if err != nil {
			return "", err
		}
		if page.Continue == "" {
			return page.Version, nil
		}
		q.Set("continue", page.Continue)
	}
	return "", fmt.Errorf("list %s: it has more than %d pages", path, maxPages)
}

// listMeta holds the fields of metav1.ListMeta that are used.
type listMeta struct {
	Version  string `json:"resourceVersion"`
	Continue string `json:"continue"`
}

func (c *Client) listPage(ctx context.Context, path string, query url.Values, each func(json.RawMessage) error) (meta listMeta, err error) {
	ctx, cancel := context.WithTimeout(ctx, pageWithin)
	defer cancel()
	body, err := c.send(ctx, request{method: http.MethodGet, path: path, query: query})
	if err != nil {
		return meta, err
	}
	defer body.Close()
	if meta, err = readList(body, each); err != nil {
		return meta, fmt.Errorf("list %s: %w", path, err)
	}
	return meta, nil
}

// readList reads a list object by object, so that only one object is in memory.
func readList(r io.Reader, each func(json.RawMessage) error) (meta listMeta, err error) {
	d := newDecoder(r)
	if t, err := d.Token(); err != nil {
		return meta, err
	} else if t != json.Delim('{') {
		return meta, fmt.Errorf("the response is not a JSON object, but begins with %v", t)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return meta, err
		}
		switch key {
		case "metadata":
			err = d.Decode(&meta)
		case "items":
			err = d.readItems(each)
		default:
			err = d.Decode(new(json.RawMessage))
		}
		if err != nil {
			return meta, err
		}
	}
	_, err = d.Token()
	return meta, err
}

// decoder reads a sequence of JSON values. It fails with errTooLarge at a value that is longer than maxObject.
type decoder struct {
	*json.Decoder
	budget *budget
}

func newDecoder(body io.Reader) decoder {
	b := &budget{r: body, left: maxObject}
	return decoder{json.NewDecoder(b), b}
}

func (d decoder) decodeNext(out any) error {
	d.budget.left = maxObject
	return d.Decode(out)
}

func (d decoder) readItems(each func(json.RawMessage) error) error {
	t, err := d.Token()
	if err != nil || t == nil { // items is null if there are none
		return err
	}
	if t != json.Delim('[') {
		return fmt.Errorf("items is not a list, but %v", t)
	}
	for d.More() {
		var item json.RawMessage
		if err := d.decodeNext(&item); err != nil {
			return err
		}
		if err := each(item); err != nil {
			return err
		}
	}
	d.budget.left = maxObject
	_, err = d.Token()
	return err
}

// Event is one event of a watch. Its type is ADDED, MODIFIED, DELETED or BOOKMARK.
type Event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"` // object of the event; valid only during the call of each
}

// Watch calls each for every event after the resource version in query. It returns nil when the server ends the watch
// or sends nothing for 90 seconds. It returns an error if something fails. opened is called when the server has
// answered the request.
func (c *Client) Watch(ctx context.Context, path string, query url.Values, opened func(), each func(Event) error) error {
	lasts := watchFor + rand.N(time.Minute)
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, lasts+watchGrace)
	defer cancel()
	q := maps.Clone(query)
	q.Set("watch", "1")
	q.Set("allowWatchBookmarks", "true")
	q.Set("timeoutSeconds", strconv.Itoa(int(lasts.Seconds())))
	silence := time.AfterFunc(openWithin, cancel)
	defer silence.Stop()
	body, err := c.send(ctx, request{method: http.MethodGet, path: path, query: q})
	if err != nil && outer.Err() == nil && ctx.Err() != nil {
		return fmt.Errorf("watch %s: no answer within %v", path, openWithin)
	}
	if err != nil {
		return err
	}
	defer body.Close()
	opened()
	d := newDecoder(body)
	for {
		silence.Reset(silentFor)
		var e Event
		if err := d.decodeNext(&e); err != nil {
			if errors.Is(err, io.EOF) || outer.Err() == nil && ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("watch %s: %w", path, err)
		}
		if e.Type == "ERROR" {
			var s status
			if err := json.Unmarshal(e.Object, &s); err != nil {
				return fmt.Errorf("watch %s: %w", path, err)
			}
			return s.toError()
		}
		if err := each(e); err != nil {
			return err
		}
	}
}

// budget is a reader that limits the number of bytes that may be read before the limit is reset. Beyond the limit, Read
// returns errTooLarge.
type budget struct {
	r    io.Reader
	left int
}

func (b *budget) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
