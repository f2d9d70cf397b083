//go:build e2e

package loki

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
	"crowsnest/sources/internal/rangeread"
	"crowsnest/test/linesink"
	"crowsnest/test/lokilab"
	"crowsnest/test/servers"
)

// TestE2ELoad measures what a source with the shipped rules costs Loki, for a number of controllers, each of which
// writes ten lines a minute. docs/loki.md has the figures of 10, 100 and 1000 controllers in eleven minutes:
//
//	CROWSNEST_LOKI_CONTROLLERS=10 CROWSNEST_LOKI_RUN=11m go test -tags e2e -run E2ELoad -v ./sources/loki
func TestE2ELoad(t *testing.T) {
	run := duration(t, "CROWSNEST_LOKI_RUN", time.Minute)
	n, err := strconv.Atoi(cmp.Or(os.Getenv("CROWSNEST_LOKI_CONTROLLERS"), "10"))
	require.NoError(t, err)
	l := servers.Loki(t, servers.LokiOptions{})
	began := time.Now()
	pushControllers(t, l.URL, n, began.Add(-time.Hour), began)
	set, err := rules.Load(rules.Shipped())
	require.NoError(t, err)
	load := &loadMeter{next: http.DefaultTransport}
	s := New(Config{rangeread.Config{URL: l.URL, Selector: `{app=~".+"}`, Transport: load}})[0]
	s.Info().UseRules(set)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	started := time.Now()
	go func() { done <- s.Run(ctx, linesink.New(set)) }()
	for at := began; time.Since(started) < run; at = at.Add(time.Minute) {
		require.Eventually(t, func() bool { return time.Since(at) > time.Minute }, 2*time.Minute, 100*time.Millisecond)
		pushControllers(t, l.URL, n, at, at.Add(time.Minute))
	}
	cancel()
	require.NoError(t, <-done)
	load.report(t, n, time.Since(started))
	require.Empty(t, s.Status().Losses)
}

// pushControllers pushes ten lines a minute of each of n controllers, one of which is an error.
func pushControllers(t *testing.T, url string, n int, from, to time.Time) {
	w := &lokilab.Writer{URL: url}
	for first := 0; first < n; first += 10 {
		var all []lokilab.Stream
		for k := first; k < min(first+10, n); k++ {
			s := lokilab.Stream{Labels: map[string]string{"app": "a", "namespace": fmt.Sprint("ns-", k%20), "pod": fmt.Sprint("p", k), "container": "manager"}}
			i := 0
			for at := from; at.Before(to); at = at.Add(6 * time.Second) {
				text := fmt.Sprintf(`I1120 10:00:00.000000       1 controller.go:316] "Reconciled" controller="machine" Machine="ns/m-%d" namespace="ns" name="m-%d" reconcileID="%x"`, k, k, at.UnixNano())
				if i++; i%10 == 0 {
					text = fmt.Sprintf(`E1120 10:00:00.000000       1 controller.go:316] "Reconciler error" err="failed to do it: try %d" controller="machine" Machine="ns/m-%d" namespace="ns" name="m-%d"`, i, k, k)
				}
				s.Add(at, text)
			}
			all = append(all, s)
		}
		require.NoError(t, w.Push(t.Context(), all))
	}
}

// loadMeter counts requests to Loki and what their answers say about the work that they caused.
type loadMeter struct {
	next http.RoundTripper

	mu                                       sync.Mutex
	requests, queryBytes, answerBytes, bytes int64
	seconds                                  float64
}

var (
	processedBytes = regexp.MustCompile(`"totalBytesProcessed":(\d+)`)
	execTime       = regexp.MustCompile(`"execTime":([\d.e+-]+)`)
)

func (m *loadMeter) RoundTrip(r *http.Request) (*http.Response, error) {
	size := int64(len(r.URL.RawQuery)) + max(r.ContentLength, 0)
	resp, err := m.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests++
	m.queryBytes += size
	m.answerBytes += int64(len(body))
	if found := processedBytes.FindSubmatch(body); found != nil {
		n, _ := strconv.ParseInt(string(found[1]), 10, 64)
		m.bytes += n
	}
	if found := execTime.FindSubmatch(body); found != nil {
		s, _ := strconv.ParseFloat(string(found[1]), 64)
		m.seconds += s
	}
	return resp, err
}

func (m *loadMeter) report(t *testing.T, controllers int, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	require.Positive(t, m.requests)
	days := took.Hours() / 24
	perDay := func(n int64) float64 { return float64(n) / days / 1e6 }
	t.Logf("%d controllers: %.2f queries a second; a day: %.0f MB of queries, %.0f MB of answers, %.0f MB searched by Loki in %.0f s",
		controllers, float64(m.requests)/took.Seconds(), perDay(m.queryBytes), perDay(m.answerBytes), perDay(m.bytes), m.seconds/days)
}
