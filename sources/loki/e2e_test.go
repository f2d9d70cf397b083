//go:build e2e

package loki

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/internal/pause"
	"crowsnest/rules"
	"crowsnest/sources/internal/rangeread"
	"crowsnest/test/linesink"
	"crowsnest/test/lokilab"
	"crowsnest/test/servers"
)

func duration(t *testing.T, name string, def time.Duration) time.Duration {
	text := os.Getenv(name)
	if text == "" {
		return def
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err)
	return d
}

// promisedLate is the largest age of a line that arrives late.
const promisedLate = 5 * time.Minute

// tenantRate is the number of lines per second and tenant.
const tenantRate = 1000

// No losses and no duplicates: two tenants, connections that drop every 1, 7 and 60 s,
// two kills of Loki, 1% of the lines up to promisedLate late, and a rule that matches every
// line. CROWSNEST_LOKI_RUN sets the duration; the default is 1 minute.
func TestE2ENothingLostOrDoubled(t *testing.T) {
	run := duration(t, "CROWSNEST_LOKI_RUN", time.Minute)
	l := servers.Loki(t, servers.LokiOptions{Auth: true})
	px, err := lokilab.NewProxy(l.URL)
	require.NoError(t, err)
	defer px.Close()
	cfg := Config{rangeread.Config{URL: px.URL, Selector: `{app=~".+"}`, Tenants: []string{"one", "two"}, LookBack: 6 * time.Minute, SlowInterval: 15 * time.Second}}
	require.NoError(t, cfg.Validate())
	p := linesink.New(pack(t, `- {alert: R, from: '{app="a"}', match: bad, severity: warning}`))
	p.Quiet = true
	all := New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for _, s := range all {
		s.Info().UseRules(p.Set)
		wg.Go(func() { _ = s.Run(ctx, p) })
	}
	texts, retries := disturbed(t, l, px, cfg.Tenants, run)
	ended := time.Now()
	for p.Total() < len(texts) && time.Since(ended) < 2*time.Minute {
		pause.Sleep(ctx, 100*time.Millisecond, nil)
	}
	caught := time.Since(ended)
	pause.Sleep(ctx, 20*time.Second, nil) // doubles would come with the next slow rounds
	cancel()
	wg.Wait()
	wrong := p.Wrong(texts)
	t.Logf("%d lines in %s, %d pushes tried again, %d cuts, 2 kills; all read %s after the last push; wrong: %d, handed on: %d",
		len(texts), run, retries, px.Cuts(), caught.Round(100*time.Millisecond), len(wrong), p.Total())
	for _, s := range all {
		st := s.Status()
		t.Logf("%s: %v losses %v, watermark %s behind at the end", s.Name(), counted(st.Errors), st.Losses, time.Since(st.Watermark).Round(time.Second))
		require.Empty(t, st.Losses)
	}
	slices.Sort(wrong)
	require.Empty(t, wrong[:min(len(wrong), 10)])
	require.Equal(t, len(texts), p.Total())
}

// disturbed writes lines for every tenant while connections are cut and Loki is
// killed. A rule matches every line.
func disturbed(t *testing.T, l *servers.LokiServer, px *lokilab.Proxy, tenants []string, run time.Duration) (texts []string, retries int) {
	t.Helper()
	ctx := t.Context()
	began := time.Now()
	var mu sync.Mutex
	var writers sync.WaitGroup
	var ws []*lokilab.Writer
	var failed []error
	for _, tenant := range tenants {
		w := &lokilab.Writer{URL: l.URL, Tenant: tenant, Rate: tenantRate, Bad: 100, Late: promisedLate}
		ws = append(ws, w)
		writers.Go(func() {
			out, err := w.Run(ctx, run)
			mu.Lock()
			defer mu.Unlock()
			failed = append(failed, err)
			for _, l := range out {
				texts = append(texts, l.Text)
			}
		})
	}
	kills := []time.Duration{run * 3 / 10, run * 7 / 10}
	for time.Since(began) < run {
		every := []time.Duration{time.Second, 7 * time.Second, time.Minute}[min(2, int(3*time.Since(began)/run))]
		pause.Sleep(ctx, every, nil)
		px.Cut()
		if len(kills) > 0 && time.Since(began) > kills[0] {
			kills = kills[1:]
			l.Kill()
			pause.Sleep(ctx, 2*time.Second, nil)
			l.Start()
		}
	}
	writers.Wait()
	require.NoError(t, errors.Join(failed...))
	for _, w := range ws {
		retries += w.Retries
	}
	return texts, retries
}

func counted(errs map[string]int64) map[string]int64 {
	out := map[string]int64{}
	for reason, n := range errs {
		if n > 0 {
			out[reason] = n
		}
	}
	return out
}

// The assumptions of the reader about Loki.
func TestE2EPromises(t *testing.T) {
	l := servers.Loki(t, servers.LokiOptions{})
	cfg := Config{rangeread.Config{URL: l.URL, Selector: `{app=~".+"}`, LookBack: 50 * time.Minute}}
	now := time.Now().Add(-10 * time.Minute)
	push := func(age time.Duration, line string, labels map[string]string, meta map[string]string) {
		t.Helper()
		require.NoError(t, l.TryPush("", servers.Entry{Time: now.Add(-age), Line: line, Labels: labels, Metadata: meta}))
	}
	a := map[string]string{"app": "a", "container": "syncer"}
	push(1, "plain lease lost", a, nil)
	push(2, "folded LeaderElection STOPPED", a, nil)
	push(3, "NUL lease lo\x00st", a, nil)
	push(4, `{"Cluster":"sel\u0064om"}`, a, nil)
	push(5, "nothing of it", a, nil)
	push(6, "absent lease lost", map[string]string{"app": "a"}, map[string]string{"container": "syncer"})
	push(7, "other lease lost", map[string]string{"app": "a", "container": "other"}, nil)
	push(8, "own lease lost", map[string]string{"app": "a", "container": "syncer", "service_name": "crowsnest"}, nil)
	push(9, "quote \"a|b\" (x) `y` é", a, nil)
	var ties []servers.Entry
	for i := range 12_000 {
		ties = append(ties, servers.Entry{Time: now, Line: fmt.Sprint("tie lease lost ", i), Labels: map[string]string{"app": "a", "container": "syncer", "pod": fmt.Sprint("p", i/1000)}})
	}
	l.Push("", ties...)
	set := pack(t, `
- {alert: A, from: '{container="syncer"}', match: lease lost, severity: info}
- {alert: B, from: '{container="syncer"}', match: {regex: "(?i)leaderelection stopped"}, severity: info}
- {alert: C, from: '{container=~"sync.*"}', match: {field: {Cluster: seldom}}, severity: info}
- {alert: D, from: '{container="syncer"}', match: "\"a|b\" (x) `+"`y`"+` é", severity: info}
`)
	p := linesink.New(set)
	count := map[string]int{}
	for _, s := range New(cfg) {
		ctx, cancel := context.WithCancel(t.Context())
		s.Info().UseRules(set)
		done := make(chan error)
		go func() { done <- s.Run(ctx, p) }()
		require.Eventually(t, func() bool { return s.Status().Watermark.After(now) }, time.Minute, 50*time.Millisecond)
		cancel()
		<-done
		require.Empty(t, s.Status().Losses)
		require.Empty(t, s.Status().Error)
		t.Log(counted(s.Status().Errors))
	}
	for text, n := range p.Count {
		kind, _, _ := strings.Cut(text, " ")
		require.Equal(t, 1, n, text)
		count[kind]++
	}
	require.Equal(t, map[string]int{"plain": 1, "folded": 1, "NUL": 1, `{"Cluster":"sel\u0064om"}`: 1, "absent": 1, "quote": 1, "tie": 12_000}, count)
	require.Len(t, p.Hits, 12_006)
}

// With cache_results, Loki caches for which times a query found nothing. The reader
// must avoid that.
func TestE2EEmptyTimes(t *testing.T) {
	l := servers.Loki(t, servers.LokiOptions{Args: []string{"-querier.cache-results=true", "-frontend.max-cache-freshness=1m"}})
	now := time.Now().Add(-10 * time.Minute)
	empty := rangeread.Query{Text: `{app="late"} |~ "lease"`, From: now.Add(-40 * time.Minute).UnixNano(), To: now.Add(-30 * time.Minute).UnixNano(), Limit: 10}
	naive := func() int {
		values := url.Values{"query": {empty.Text}, "start": {fmt.Sprint(empty.From)}, "end": {fmt.Sprint(empty.To)}, "limit": {"10"}, "direction": {"forward"}}
		n := 0
		require.NoError(t, servers.Get(t.Context(), l.URL+"/loki/api/v1/query_range?"+values.Encode(), func(body []byte) error {
			a := answerOf(body)
			err := decode(a)
			n = a.Count
			return err
		}))
		return n
	}
	c := rangeread.NewClient(dialect, rangeread.Config{URL: l.URL, Timeout: 10 * time.Second, MaxBody: 8 << 20}, "")
	defer c.Close()
	var got rangeread.Answer
	require.Zero(t, naive())
	require.Nil(t, c.Query(t.Context(), empty, &got))
	require.Zero(t, got.Count)
	l.Push("", servers.Entry{Time: now.Add(-35 * time.Minute), Line: "late lease", Labels: map[string]string{"app": "late"}})
	t.Logf("with what Loki remembers: %d of 1 entry", naive())
	empty.Text += " # 1"
	require.Nil(t, c.Query(t.Context(), empty, &got))
	require.Equal(t, 1, got.Count)
}

// How long Loki takes to search for the texts of all shipped rules: with the queries of the
// plan, and with one query for all. (It takes a minute and more for one expression that is
// not a list of texts.)
func TestE2EFilterCost(t *testing.T) {
	l := servers.Loki(t, servers.LokiOptions{})
	now := time.Now()
	line := "I0101 00:00:00.000000       1 machineset_controller.go:483] \"Reconciling\" controller=\"machineset\" namespace=\"default\" name=\"workers-%d\" reconcileID=\"%d\""
	w := &lokilab.Writer{URL: l.URL}
	for k := range 20 {
		s := lokilab.Stream{Labels: map[string]string{"app": "a", "pod": fmt.Sprint("p", k), "container": []string{"manager", "web", "etcd", "api"}[k%4]}}
		for i := range 1_000 {
			s.Add(now.Add(-time.Duration(i)*time.Millisecond), fmt.Sprintf(line, i, i))
		}
		require.NoError(t, w.Push(t.Context(), []lokilab.Stream{s}))
	}
	set, err := rules.Load(rules.Shipped())
	require.NoError(t, err)
	queries := recorded(t, l, set)
	var alone []string
	for _, q := range queries {
		_, filter, _ := strings.Cut(q, dialect.Open)
		alone = append(alone, strings.TrimSuffix(filter, dialect.Close))
	}
	c := rangeread.NewClient(dialect, rangeread.Config{URL: l.URL, Timeout: time.Minute, MaxBody: 8 << 20}, "")
	defer c.Close()
	var a rangeread.Answer
	for _, queries := range [][]string{
		{`{app="a"}`},
		{`{app="a"} |= "never there"`},
		queries,
		{`{app="a"}` + dialect.Open + strings.Join(alone, "|") + dialect.Close},
	} {
		began, found := time.Now(), 0
		for _, q := range queries {
			f := c.Query(t.Context(), rangeread.Query{Text: q, From: now.Add(-time.Minute).UnixNano(), To: now.Add(time.Minute).UnixNano(), Limit: 5000}, &a)
			require.Nil(t, f)
			found += a.Count
		}
		t.Logf("%s for 20,000 lines, %d found by %d queries: %s", time.Since(began).Round(time.Millisecond), found, len(queries), queries[0][:min(len(queries[0]), 80)])
	}
}

// recorder is a transport that records the queries with a filter.
type recorder struct {
	mu      sync.Mutex
	queries []string
}

func (c *recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	form, err := url.ParseQuery(r.URL.RawQuery + "&" + string(body))
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if q, _, _ := strings.Cut(form.Get("query"), " # "); strings.Contains(q, dialect.Open) && !slices.Contains(c.queries, q) {
		c.queries = append(c.queries, q)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// recorded returns the queries of a source for a set of rules.
func recorded(t *testing.T, l *servers.LokiServer, set *rules.Set) []string {
	t.Helper()
	c := &recorder{}
	s := New(Config{rangeread.Config{URL: l.URL, Selector: `{app="a"}`, Transport: c, Timeout: time.Minute}})[0]
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx, linesink.New(set)) }()
	require.Eventually(t, func() bool { return !s.Status().Watermark.IsZero() }, time.Minute, 50*time.Millisecond)
	cancel()
	require.NoError(t, <-done)
	return c.queries
}
