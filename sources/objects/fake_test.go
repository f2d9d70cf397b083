package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"crowsnest/matcher"
	"crowsnest/sources"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ sources.Source = (*Source)(nil)

// api is an API server with discovery, lists and watches.
type api struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced when anything changes; nil outside of bubbles
	version int
	kinds   map[string]string // path: kind, such as /api/v1/nodes: Node
	objects map[string]map[string]any
	events  []apiEvent
	fault   int // status of every answer; 0: none
	denied  string
	hang    bool // watches send nothing
	asked   []string
}

type apiEvent struct {
	version int
	path    string
	text    string
}

func newAPI(kinds ...string) *api {
	a := &api{version: 10, kinds: map[string]string{}, objects: map[string]map[string]any{}}
	for _, k := range kinds {
		path, kind, _ := strings.Cut(k, "=")
		a.kinds[path] = kind
	}
	return a
}

func (a *api) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
	if a.changed != nil {
		close(a.changed)
		a.changed = make(chan struct{})
	}
}

// put creates or changes an object, which is JSON without a version.
func (a *api) put(path, object string) {
	a.set(func() {
		var o map[string]any
		if err := json.Unmarshal([]byte(object), &o); err != nil {
			panic(err)
		}
		event := "ADDED"
		if a.objects[keyOf(path, o)] != nil {
			event = "MODIFIED"
		}
		a.event(event, path, o)
		a.objects[keyOf(path, o)] = o
	})
}

func (a *api) remove(path, key string) {
	a.set(func() {
		o := a.objects[path+" "+key]
		delete(a.objects, path+" "+key)
		a.event("DELETED", path, o)
	})
}

func (a *api) event(event, path string, o map[string]any) {
	a.version++
	meta := maps.Clone(o["metadata"].(map[string]any))
	meta["resourceVersion"] = strconv.Itoa(a.version)
	o["metadata"] = meta
	b, _ := json.Marshal(map[string]any{"type": event, "object": o})
	a.events = append(a.events, apiEvent{a.version, path, string(b)})
}

func keyOf(path string, o map[string]any) string {
	meta := o["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	if ns, ok := meta["namespace"].(string); ok {
		name = ns + "/" + name
	}
	return path + " " + name
}

func (a *api) requests() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.asked)
}

func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, r.URL.String())
	answer := func(code int, body any) (*http.Response, error) {
		b, _ := json.Marshal(body)
		return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(b)))}, nil
	}
	path := r.URL.Path
	switch _, known := a.kinds[path]; {
	case a.fault != 0:
		return answer(a.fault, map[string]any{"message": "broken by the test"})
	case a.denied != "" && a.denied == path:
		return answer(403, map[string]any{"message": "User cannot list resource"})
	case known && r.URL.Query().Get("watch") != "":
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: a.watch(r)}, nil
	case known:
		var items []any
		for _, key := range slices.Sorted(maps.Keys(a.objects)) {
			if strings.HasPrefix(key, path+" ") {
				items = append(items, a.objects[key])
			}
		}
		return answer(200, map[string]any{"metadata": map[string]any{"resourceVersion": strconv.Itoa(a.version)}, "items": items})
	}
	if body := a.discover(path); body != nil {
		return answer(200, body)
	}
	return answer(404, map[string]any{"message": "not found"})
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

func (a *api) watch(r *http.Request) io.ReadCloser {
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	out, in := io.Pipe()
	stop := context.AfterFunc(r.Context(), func() { in.CloseWithError(r.Context().Err()) })
	go func() {
		defer stop()
		for {
			a.mu.Lock()
			changed, fault, hang := a.changed, a.fault, a.hang
			events := slices.Clone(a.events)
			a.mu.Unlock()
			if fault != 0 {
				in.CloseWithError(io.ErrUnexpectedEOF)
				return
			}
			for _, e := range events {
				if hang || e.version <= from || e.path != r.URL.Path {
					continue
				}
				from = e.version
				if _, err := io.WriteString(in, e.text); err != nil {
					return
				}
			}
			select {
			case <-changed:
			case <-r.Context().Done():
				return
			}
		}
	}()
	return out
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

func (p *pipe) AdvanceWatermark(_ string, at time.Time) {
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
		cfg.Transport = a
		a.changed = make(chan struct{})
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
		a.changed = nil
	})
}
