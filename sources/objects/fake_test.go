package objects

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"crowsnest/matcher"
	"crowsnest/sources"
	"crowsnest/test/fakekube"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ sources.Source = (*Source)(nil)

// api is an API server with discovery. Its objects outlive the server of one bubble.
type api struct {
	mu      sync.Mutex
	server  *fakekube.Server  // nil outside of bubbles
	kinds   map[string]string // path: kind, such as /api/v1/nodes: Node
	objects map[string]map[string]fakekube.Object
	fault   int // status of every answer; 0: none
	denied  string
}

func newAPI(kinds ...string) *api {
	a := &api{kinds: map[string]string{}, objects: map[string]map[string]fakekube.Object{}}
	for _, k := range kinds {
		path, kind, _ := strings.Cut(k, "=")
		a.kinds[path] = kind
	}
	return a
}

// set changes the server. A fault ends all watches.
func (a *api) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
	if a.fault != 0 && a.server != nil {
		a.server.Cut()
	}
}

// put creates or changes an object, which is JSON without a version.
func (a *api) put(path, object string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var o fakekube.Object
	if err := json.Unmarshal([]byte(object), &o); err != nil {
		panic(err)
	}
	meta := o["metadata"].(fakekube.Object)
	namespace, _ := meta["namespace"].(string)
	if a.objects[path] == nil {
		a.objects[path] = map[string]fakekube.Object{}
	}
	a.objects[path][namespace+"/"+meta["name"].(string)] = o
	if a.server != nil {
		a.server.Put(path, o)
	}
}

// remove deletes an object of a namespace, or with a key that begins with a slash.
func (a *api) remove(path, key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.objects[path], key)
	if namespace, name, _ := strings.Cut(key, "/"); a.server != nil {
		a.server.Remove(path, namespace, name)
	}
}

// open returns a server for a bubble.
func (a *api) open() *fakekube.Server {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.server = fakekube.New()
	for path, objects := range a.objects {
		for _, o := range objects {
			a.server.Put(path, o)
		}
	}
	a.server.Break(a.answer)
	return a.server
}

// answer returns faults and the answers of discovery; nil: the server answers.
func (a *api) answer(r *http.Request) *http.Response {
	a.mu.Lock()
	defer a.mu.Unlock()
	path := r.URL.Path
	switch _, known := a.kinds[path]; {
	case a.fault != 0:
		return fakekube.Answer(a.fault, "broken by the test")
	case a.denied != "" && a.denied == path:
		return fakekube.Answer(http.StatusForbidden, "User cannot list resource")
	case known:
		return nil
	}
	body := a.discover(path)
	if body == nil {
		return fakekube.Answer(http.StatusNotFound, "not found")
	}
	b, _ := json.Marshal(body)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(b))}
}

// discover answers for /api/v1, /apis/GROUP and /apis/GROUP/VERSION.
func (a *api) discover(path string) any {
	var resources, versions []any
	for _, known := range slices.Sorted(maps.Keys(a.kinds)) {
		i := strings.LastIndexByte(known, '/')
		if known[:i] == path {
			resources = append(resources, map[string]any{"name": known[i+1:], "kind": a.kinds[known]})
		}
		if version := known[:i]; strings.HasPrefix(version, path+"/") {
			versions = append(versions, map[string]any{"groupVersion": strings.TrimPrefix(version, "/apis/")})
		}
	}
	switch {
	case resources != nil:
		return map[string]any{"resources": resources}
	case versions != nil && strings.Count(path, "/") == 2:
		return map[string]any{"preferredVersion": versions[0], "versions": versions}
	}
	return nil
}

// pipe stores lines.
type pipe struct {
	sources.Pipeline
	mu        sync.Mutex
	lines     []string
	times     []time.Time
	watermark time.Time
}

func (p *pipe) Match(s *matcher.Stream, rec matcher.Record, commit func()) {
	p.mu.Lock()
	l := s.Labels()
	p.lines = append(p.lines, fmt.Sprintf("%s %s: %s", l["component"], l["namespace"], rec.Text))
	p.times = append(p.times, rec.Time)
	p.mu.Unlock()
	commit()
}

func (p *pipe) AdvanceWatermark(_ string, at time.Time, _ ...matcher.LaggingStream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watermark = at
}

func (p *pipe) provedAt() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.watermark
}

func (p *pipe) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.lines
	p.lines, p.times = nil, nil
	return out
}

// inBubble runs a source in virtual time while f observes it.
func inBubble(t *testing.T, cfg Config, a *api, saved json.RawMessage, f func(s *Source, p *pipe, pass func(time.Duration))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg.Transport = a.open()
		s, p := New(cfg), &pipe{}
		require.NoError(t, s.Restore(saved))
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx, p) }()
		f(s, p, func(d time.Duration) {
			time.Sleep(d) //nolint:forbidigo // virtual
			synctest.Wait()
		})
		cancel()
		require.NoError(t, <-done)
		a.server = nil
	})
}
