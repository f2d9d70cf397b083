package configmaps

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
)

func configMapJSON(namespace, name, uid string, data map[string]string) json.RawMessage {
	out, _ := json.Marshal(map[string]any{
		"metadata": map[string]any{"namespace": namespace, "name": name, "uid": uid, "resourceVersion": uid, "creationTimestamp": "2026-01-01T00:00:00Z"}, "data": data,
	})
	return out
}

// set passes the newest version of a ConfigMap to the watcher.
func set(t *testing.T, w *Watcher, namespace, name string, texts ...string) {
	t.Helper()
	data := map[string]string{}
	for i, text := range texts {
		data[fmt.Sprintf("%d.yaml", i)] = text
	}
	require.NoError(t, (*handler)(w).Changed(configMapJSON(namespace, name, namespace+name, data)))
}

func remove(t *testing.T, w *Watcher, namespace, name string) {
	t.Helper()
	require.NoError(t, (*handler)(w).Deleted(t.Context(), configMapJSON(namespace, name, namespace+name, nil)))
}

// files returns the names of the files without their prefix and, after a colon, their content or why it was not read.
func files(w *Watcher) (out []string) {
	_, all := w.Files()
	for _, f := range all {
		text := string(f.Data)
		if f.Unread != "" {
			text = "refused"
		}
		out = append(out, strings.TrimPrefix(f.Name, rules.OwnedPrefix)+": "+text)
	}
	return out
}

func TestFiles(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w := New(Settings{Selector: "a=b"}, Options{Now: func() time.Time { return now }})
	h := (*handler)(w)
	h.Listing()
	require.False(t, w.IsListed())
	set(t, w, "b", "two", "x")
	set(t, w, "a", "one", "x", "y")
	require.NoError(t, h.Changed(configMapJSON("a", "zero", "u", map[string]string{"note.txt": "z", ".hidden.yaml": "z"})))
	h.Listed(context.Background())
	require.True(t, w.IsListed())
	version, _ := w.Files()
	require.Equal(t, []string{"a/one/0.yaml: x", "a/one/1.yaml: y", "a/zero: refused", "b/two/0.yaml: x"}, files(w))
	require.False(t, w.HasChanged(version))
	set(t, w, "b", "two", "x")
	require.False(t, w.HasChanged(version), "only the metadata changed")

	remove(t, w, "a", "zero")
	require.True(t, w.HasChanged(version))
	set(t, w, "b", "two", "new")
	require.Equal(t, []string{"a/one/0.yaml: x", "a/one/1.yaml: y", "b/two/0.yaml: new"}, files(w))

	// A new list forgets what it does not contain.
	h.Listing()
	set(t, w, "b", "two", "new")
	h.Listed(context.Background())
	require.Equal(t, []string{"b/two/0.yaml: new"}, files(w))

	// A namespace without room keeps its other ConfigMaps, and others have room.
	set(t, w, "b", "large", strings.Repeat("x", rules.MaxOwnedBytes))
	set(t, w, "c", "one", "x")
	require.Equal(t, []string{"b/large/0.yaml: refused", "b/two/0.yaml: new", "c/one/0.yaml: x"}, files(w))
	remove(t, w, "b", "large")
	set(t, w, "b", "many", make([]string, rules.MaxOwnedFiles+1)...)
	require.Equal(t, []string{"b/many/0.yaml: refused", "b/two/0.yaml: new", "c/one/0.yaml: x"}, files(w))
	remove(t, w, "b", "many")
	for i := range maxConfigMaps + 20 {
		set(t, w, "c", fmt.Sprintf("many-%02d", i), "x")
	}
	require.Contains(t, files(w), "c/...: refused")
	now = now.Add(time.Hour)
	require.LessOrEqual(t, len(files(w)), maxConfigMaps+2)
}

// A namespace that changes its ConfigMaps all the time causes few loads, and does not delay other namespaces.
func TestChangesAreLimited(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w := New(Settings{Selector: "a=b"}, Options{Now: func() time.Time { return now }})
	(*handler)(w).Listing()
	(*handler)(w).Listed(context.Background())
	changes := 0
	version, _ := w.Files()
	for i := range 3600 {
		set(t, w, "busy", "one", fmt.Sprint("text ", i))
		if i%7 == 0 {
			remove(t, w, "busy", "two")
		} else {
			set(t, w, "busy", "two", fmt.Sprint("text ", i))
		}
		if w.HasChanged(version) {
			version, _ = w.Files()
			changes++
		}
		now = now.Add(time.Second)
	}
	require.LessOrEqual(t, changes, 2*(changeBurst+3600/int(changeEvery.Seconds())))
	set(t, w, "quiet", "one", "x")
	require.Contains(t, files(w), "quiet/one/0.yaml: x")
}

// api is an API server that remembers Events.
type api struct {
	mu     sync.Mutex
	events []string
	names  map[string]bool
	code   int
}

// setCode sets the status code of the following responses. Zero means that the server accepts Events.
func (a *api) setCode(code int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.code = code
}

func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var event struct {
		Reason, Message string
		Metadata        struct{ Name string }
	}
	_ = json.NewDecoder(r.Body).Decode(&event)
	code := a.code
	switch {
	case code != 0:
	case a.names[event.Metadata.Name]:
		code = http.StatusConflict
	default:
		code = http.StatusCreated
		a.names[event.Metadata.Name] = true
		a.events = append(a.events, r.URL.Path+" "+event.Reason+" "+event.Message)
	}
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &api{names: map[string]bool{}}
		start := func() (w *Watcher, stop func()) {
			w = New(Settings{Selector: "a=b"}, Options{Transport: server})
			(*handler)(w).Listing()
			for i := range 3 {
				set(t, w, "team", fmt.Sprint("cm-", i), "x")
			}
			(*handler)(w).Listed(context.Background())
			w.Files()
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { w.writeEvents(ctx) })
			return w, func() { cancel(); running.Wait() }
		}
		pass := func(d time.Duration, want ...string) {
			t.Helper()
			time.Sleep(d) // virtual, in the bubble of synctest
			synctest.Wait()
			server.mu.Lock()
			defer server.mu.Unlock()
			require.Equal(t, want, server.events)
			server.events = nil
		}
		name := func(i int) string { return fmt.Sprintf("configmap:team/cm-%d/0.yaml", i) }
		const to = "/api/v1/namespaces/team/events "
		w, stop := start()
		pass(time.Minute) // nothing is known yet
		w.Report(map[string]string{name(1): "bad " + strings.Repeat("x", 5000)})
		pass(time.Minute, to+"RulesRefused bad "+strings.Repeat("x", maxMessage-4)+"…")
		w.Report(map[string]string{name(1): "worse"})
		w.Report(map[string]string{name(1): "worse"})
		pass(30*time.Minute, to+"RulesRefused worse")
		pass(time.Hour, to+"RulesRefused worse") // API servers forget Events
		stop()
		w, stop = start() // a restart does not repeat the Event
		w.Report(map[string]string{name(1): "worse"})
		pass(time.Minute)
		server.setCode(http.StatusForbidden)
		w.Report(map[string]string{name(1): "worst"})
		pass(time.Minute)
		require.Contains(t, w.Stats().EventError, "grant create of events")
		server.setCode(0)
		pass(time.Minute, to+"RulesRefused worst")
		require.Empty(t, w.Stats().EventError)
		w.Report(nil)
		pass(time.Minute, to+"RulesAccepted All rules of the ConfigMap are active.")
		pass(3 * time.Hour)
		stop()
	})
}
