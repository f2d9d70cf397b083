package probes

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/daemon"
)

// peer is a server that is down until come is called.
type peer struct {
	t       *testing.T
	addr    string
	handler http.Handler
	leave   func() // reverts come
}

func newPeer(t *testing.T, h http.Handler) *peer {
	t.Helper()
	addr, err := daemon.FreeAddr()
	require.NoError(t, err)
	return &peer{t: t, addr: addr, handler: h}
}

func (p *peer) url() string { return "http://" + p.addr }

// come makes the peer respond until the test ends.
func (p *peer) come() {
	p.t.Helper()
	l, err := net.Listen("tcp", p.addr)
	require.NoError(p.t, err)
	srv := &http.Server{Handler: p.handler, ReadHeaderTimeout: time.Minute}
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(l) })
	p.leave = func() {
		_ = srv.Close()
		wg.Wait()
	}
	p.t.Cleanup(p.leave)
}

// service forwards to its pod while that is ready.
func service(ready func() bool, target string) http.Handler {
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: target})
	proxy.Transport = &http.Transport{DisableKeepAlives: true}
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ready() {
			panic(http.ErrAbortHandler) // a Service without an endpoint refuses connections
		}
		proxy.ServeHTTP(w, r)
	})
}

// api is the part of the Kubernetes API that crowsnest uses: a node, its
// Machine, and one pod with a log.
type api struct {
	stop <-chan struct{}
}

const container1 = `{"name":"hello","containerID":"c://1","state":{"running":{"startedAt":"2026-01-01T00:00:00Z"}}}`

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	list := func(item string) {
		if r.URL.Query().Has("watch") {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			a.wait(r)
			return
		}
		fmt.Fprintf(w, `{"metadata":{"resourceVersion":"1"},"items":[%s]}`, item)
	}
	switch {
	case r.URL.Path == "/api/v1/nodes":
		list(`{"metadata":{"name":"node-1","uid":"1"}}`)
	case r.URL.Path == "/api/v1/pods":
		list(`{"metadata":{"name":"hello","namespace":"crowsnest-test","uid":"1"},"spec":{"nodeName":"node-1","containers":[{"name":"hello"}]},"status":{"containerStatuses":[` + container1 + `]}}`)
	case r.URL.Path == "/apis/authentication.k8s.io/v1/tokenreviews":
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"status":{"authenticated":true,"audiences":["crowsnest"],"user":{"username":"system:serviceaccount:crowsnest:crowsnest-agent","extra":{"authentication.kubernetes.io/node-name":["node-1"]}}}}`)
	case strings.HasSuffix(r.URL.Path, "/log"):
		fmt.Fprintf(w, "%s %s\n", time.Now().UTC().Format(time.RFC3339Nano), line)
		_ = http.NewResponseController(w).Flush()
		a.wait(r)
	case r.URL.Path == "/api/v1":
		fmt.Fprint(w, `{"resources":[{"name":"nodes","kind":"Node"}]}`)
	case r.URL.Path == "/apis/cluster.x-k8s.io":
		fmt.Fprint(w, `{"preferredVersion":{"groupVersion":"cluster.x-k8s.io/v1beta1"}}`)
	case r.URL.Path == "/apis/cluster.x-k8s.io/v1beta1":
		fmt.Fprint(w, `{"resources":[{"name":"machines","kind":"Machine","namespaced":true}]}`)
	case strings.HasSuffix(r.URL.Path, "/machines"):
		list(`{"metadata":{"name":"m","namespace":"n","uid":"2"},"spec":{"clusterName":"c"},"status":{"nodeRef":{"name":"node-1"}}}`)
	default:
		http.NotFound(w, r)
	}
}

func (a *api) wait(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-a.stop:
	}
}
