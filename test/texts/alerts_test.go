package texts

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
	"crowsnest/sinks/alertmanager"
	"crowsnest/test/wait"
)

const externalURL = "https://crowsnest.example.org"

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// posted is an alert as the sink posts it.
type posted struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	GeneratorURL string            `json:"generatorURL"`
}

// redactor redacts secrets like the daemon. It is safe for concurrent use.
var redactor = redact.New(nil)

// capture returns the value of a name in the i-th line.
type capture func(name string, i int) string

// episodeOf feeds an engine with the lines that fire the rule. get provides
// captures and stream labels: from Loki and from files, labels may contain any
// text.
func episodeOf(t *testing.T, r *rules.Rule, line string, get capture) episodes.Episode {
	e := episodes.New(episodes.Config{Redactor: redactor, Fingerprints: 1 << 10})
	e.AddSource("s", 0, nil)
	e.Swap(&rules.Set{Rules: []*rules.Rule{r}}, epoch)
	labels := matcher.Labels{}
	for _, name := range []string{"namespace", "pod", "container", "node", "cluster", "file"} {
		labels[name] = get(name, 0)
	}
	var hits []matcher.Hit
	add := func(i int, at time.Duration) {
		h := matcher.Hit{Rule: r, Time: epoch.Add(at), Line: line, Labels: labels, ID: uint64(len(hits) + 1)}
		if r.Sequence {
			h.Part = matcher.Part(i)
		}
		for _, name := range r.CapturedNames {
			h.Values = append(h.Values, get(name, i))
			h.Line += " " + get(name, i)
		}
		hits = append(hits, h)
	}
	lines := max(r.Count, len(r.Steps))
	step := max(r.DistinctTime(), time.Second)
	for i := range lines {
		add(i, time.Duration(i)*step)
	}
	for at := time.Minute; r.Clear == nil && r.For > 0 && at <= r.For+time.Minute; at += time.Minute { // it continues
		for i := range lines {
			add(i, at+time.Duration(i)*time.Second)
		}
	}
	fires := func(now time.Time) *episodes.Episode {
		e.AdvanceWatermark("s", now)
		for _, ep := range e.Evaluate(now) {
			if ep.State == episodes.StateFiring && !ep.Overflow {
				return &ep
			}
		}
		return nil
	}
	for i, h := range hits {
		e.Take(hits[i:i+1], h.Time)
		if ep := fires(h.Time); ep != nil {
			return *ep
		}
	}
	if next, ok := e.NextDeadline(); ok {
		if ep := fires(next); ep != nil {
			return *ep
		}
	}
	require.Fail(t, "the rule does not fire", "%s with %q", r.Alert, line)
	return episodes.Episode{}
}

// same is a capture that always has the value, except where lines must differ.
func same(r *rules.Rule, value string) capture {
	return func(name string, i int) string {
		differs := name == r.Distinct
		for _, s := range r.Steps {
			for _, d := range s.Differs {
				differs = differs || d == name
			}
		}
		if differs {
			return fmt.Sprint("v", i)
		}
		return value
	}
}

// post sends episodes through the sink and returns the alerts that arrive, by
// fingerprint of the episode.
func post(t *testing.T, eps []episodes.Episode) map[string]posted {
	var mu sync.Mutex
	got := map[string]posted{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			http.NotFound(w, r)
			return
		}
		var alerts []posted
		if err := json.NewDecoder(r.Body).Decode(&alerts); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, a := range alerts {
			got[a.GeneratorURL] = a
		}
	}))
	t.Cleanup(server.Close)
	sink, err := alertmanager.New(alertmanager.Config{URLs: []string{server.URL}, ExternalURL: externalURL}, alertmanager.Options{
		Log: zerolog.Nop(), MaxKeys: 2 * len(eps),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- sink.Run(ctx) }()
	sink.Notify(eps)
	all := wait.Until(2*time.Minute, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(got) == len(eps)
	})
	cancel()
	require.NoError(t, <-done)
	require.True(t, all, "%d of %d alerts arrived: %v", len(got), len(eps), sink.Status())
	return got
}
