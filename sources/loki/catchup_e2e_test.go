//go:build e2e

package loki

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/sources/internal/rangeread"
	"crowsnest/test/linesink"
	"crowsnest/test/lokilab"
	"crowsnest/test/servers"
)

const promisedCatchUp = 2 * time.Minute

// After an outage of ten minutes at 2,000 lines a second, every wanted line is read
// once, if one in a hundred is wanted and if all are. The test logs how long that took.
func TestE2ECatchUp(t *testing.T) {
	l := servers.Loki(t, servers.LokiOptions{})
	w := &lokilab.Writer{URL: l.URL}
	const n, outage = 1_200_000, 10 * time.Minute
	began := time.Now().Add(-outage)
	for i := 0; i < n; {
		var batch [20]lokilab.Stream
		for range 10_000 {
			kind := "good"
			if i/20%100 == 0 {
				kind = "bad"
			}
			k := i % len(batch)
			batch[k].Labels = map[string]string{"app": "a", "pod": fmt.Sprint("p", k)}
			batch[k].Add(began.Add(time.Duration(i)*outage/n), fmt.Sprintf("%s line %d of a controller, as long as lines are on average in most clusters", kind, i))
			i++
		}
		require.NoError(t, w.Push(t.Context(), batch[:]))
	}
	for _, text := range []string{"bad line", "line"} {
		p := linesink.New(rule(t, "R", text))
		p.Quiet = true
		s := New(Config{rangeread.Config{URL: l.URL, Selector: `{app=~".+"}`, LookBack: outage + time.Minute + time.Since(began.Add(outage))}})[0]
		s.Info().UseRules(p.Set)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		start := time.Now()
		go func() { done <- s.Run(ctx, p) }()
		require.Eventually(t, func() bool { return s.Status().Watermark.After(start) }, promisedCatchUp, 10*time.Millisecond)
		took := time.Since(start)
		cancel()
		require.NoError(t, <-done)
		t.Logf("%d of %d lines in %s", p.Total(), n, took.Round(10*time.Millisecond))
		require.Equal(t, map[string]int{"bad line": n / 100, "line": n}[text], p.Total())
	}
}
