//go:build e2e

package victorialogs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/internal/pause"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources/internal/rangeread"
	"crowsnest/test/linesink"
	"crowsnest/test/lokilab"
	"crowsnest/test/servers"
)

// push stores rows, whose field ts is the time in ns and whose field m is the message.
func push(t *testing.T, url, streamFields string, rows ...map[string]any) {
	t.Helper()
	var body bytes.Buffer
	for _, row := range rows {
		require.NoError(t, json.NewEncoder(&body).Encode(row))
	}
	path := url + "/insert/jsonline?_time_field=ts&_msg_field=m&_stream_fields=" + streamFields
	resp, err := http.Post(path, "application/stream+json", &body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
}

// No losses and no duplicates: two tenants, connections that drop every second and every 7 s, two restarts and two
// kills of VictoriaLogs, restarts of the reader from saved positions, 1% of the lines up to 5 minutes late, and a
// rule that matches every line. A kill loses what VictoriaLogs has not written to its disk, so after the kills only
// the lines count that it still has. CROWSNEST_VICTORIALOGS_RUN sets the duration; the default is 1 minute.
func TestE2ENothingLostOrDoubled(t *testing.T) {
	length := time.Minute
	if text := os.Getenv("CROWSNEST_VICTORIALOGS_RUN"); text != "" {
		var err error
		length, err = time.ParseDuration(text)
		require.NoError(t, err)
	}
	l := servers.VictoriaLogs(t)
	px, err := lokilab.NewProxy(l.URL)
	require.NoError(t, err)
	defer px.Close()
	tenants := []string{"0:0", "12:34"}
	cfg := Config{Config: rangeread.Config{URL: px.URL, Selector: `{app=~".+"}`, Tenants: tenants, LookBack: 6 * time.Minute, SlowInterval: 15 * time.Second}}
	require.NoError(t, cfg.Validate())
	set := pack(t, `- {alert: R, from: '{app="a"}', match: bad, severity: warning}`)
	readers := []*reader{}
	for i := range tenants {
		readers = append(readers, &reader{cfg: cfg, tenant: i, sink: linesink.New(set)})
		readers[i].start(t, nil)
	}
	retries := disturb(t, l, px, readers, tenants, length)
	ended := time.Now()
	for i, r := range readers {
		want := stored(t, l.URL, tenants[i])
		for len(r.sink.Wrong(want)) > 0 && time.Since(ended) < 2*time.Minute {
			pause.Sleep(t.Context(), 100*time.Millisecond, nil)
		}
	}
	caught := time.Since(ended)
	pause.Sleep(t.Context(), 20*time.Second, nil) // doubles would come with the next slow rounds
	for i, r := range readers {
		r.stop()
		want := stored(t, l.URL, tenants[i])
		require.Empty(t, r.sink.Wrong(want))
		double := 0
		for _, n := range r.sink.Count {
			double += n - 1
		}
		require.Zero(t, double)
		require.Empty(t, r.source.Status().Losses)
		t.Logf("%s: %d lines stored, %d passed on, %d more were lost by a kill after they had been read; all read %s after the last push; %d pushes tried again, %d cuts",
			tenants[i], len(want), r.sink.Total(), r.sink.Total()-len(want), caught.Round(100*time.Millisecond), retries, px.Cuts())
	}
}

// reader is a source that can be killed and started again.
type reader struct {
	cfg    Config
	tenant int
	sink   *linesink.Sink
	source *Source
	stop   func()
}

func (r *reader) start(t *testing.T, pos json.RawMessage) {
	t.Helper()
	r.source = New(r.cfg)[r.tenant]
	require.NoError(t, r.source.Restore(pos))
	r.stop = run(t, r.source, r.sink)
}

// kill stops the source, and continues from a snapshot that was taken before.
func (r *reader) kill(t *testing.T) {
	t.Helper()
	count, pos := r.sink.Snapshot(r.source)
	pause.Sleep(t.Context(), 300*time.Millisecond, nil)
	r.stop()
	next := linesink.New(r.sink.Set)
	next.Count = count
	r.sink = next
	r.start(t, pos)
}

// disturb writes lines for every tenant while connections are cut, VictoriaLogs restarts and is killed, and the
// readers are killed.
func disturb(t *testing.T, l *servers.Server, px *lokilab.Proxy, readers []*reader, tenants []string, length time.Duration) (retries int) { //nolint:revive // the parts of one scene
	t.Helper()
	began := time.Now()
	var mu sync.Mutex
	var writers sync.WaitGroup
	var failed []error
	for _, tenant := range tenants {
		writers.Go(func() {
			w := &lokilab.Writer{URL: l.URL + "/insert", Tenant: tenant, Rate: 500, Bad: 100, Late: 5 * time.Minute}
			_, err := w.Run(t.Context(), length)
			mu.Lock()
			defer mu.Unlock()
			failed, retries = append(failed, err), retries+w.Retries
		})
	}
	ends := []func(){l.Stop, l.Kill, l.Stop, l.Kill}
	for time.Since(began) < length {
		pause.Sleep(t.Context(), []time.Duration{time.Second, 7 * time.Second}[min(1, int(2*time.Since(began)/length))], nil)
		px.Cut()
		if done := 4 - len(ends); len(ends) > 0 && time.Since(began) > length*time.Duration(2*done+1)/9 {
			ends[0]()
			ends = ends[1:]
			pause.Sleep(t.Context(), time.Second, nil)
			l.Start()
			for _, r := range readers {
				r.kill(t)
			}
		}
	}
	writers.Wait()
	require.NoError(t, errors.Join(failed...))
	return retries
}

// stored returns the texts of all lines of a tenant.
func stored(t *testing.T, url, tenant string) []string {
	t.Helper()
	require.NoError(t, servers.Get(t.Context(), url+"/internal/force_flush", nil))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/select/logsql/query?query=*+|+uniq+by+(_msg)", http.NoBody)
	require.NoError(t, err)
	account, project, _ := strings.Cut(tenant, ":")
	req.Header.Set("AccountID", account)
	req.Header.Set("ProjectID", project)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	var out []string
	for d := json.NewDecoder(resp.Body); d.More(); {
		var row map[string]string
		require.NoError(t, d.Decode(&row))
		out = append(out, row["_msg"])
	}
	require.NotEmpty(t, out)
	return out
}

// readAll reads what VictoriaLogs has at the moment.
func readAll(t *testing.T, cfg Config, set *rules.Set) (*linesink.Sink, *Source) {
	t.Helper()
	require.NoError(t, cfg.Validate())
	require.NoError(t, servers.Get(t.Context(), cfg.URL+"/internal/force_flush", nil))
	http.DefaultClient.CloseIdleConnections()
	p, s := linesink.New(set), New(cfg)[0]
	began := time.Now()
	stop := run(t, s, p)
	defer stop()
	require.Eventually(t, func() bool { return s.Status().Watermark.After(began) && s.Status().Error == "" }, 4*time.Minute, 50*time.Millisecond)
	require.Empty(t, s.Status().Losses)
	return p, s
}

// The assumptions of the reader about VictoriaLogs.
func TestE2EPromises(t *testing.T) {
	l := servers.VictoriaLogs(t)
	now := time.Now().Add(-10 * time.Minute)
	var rows []map[string]any
	add := func(age time.Duration, m string, labels map[string]any) {
		row := map[string]any{"ts": now.Add(-age).UnixNano(), "m": m, "app": "a", "kube.pod/x": "p"}
		maps.Copy(row, labels)
		rows = append(rows, row)
	}
	syncer := map[string]any{"kube.container": "syncer"}
	add(1, "plain lease lost", syncer)
	add(2, "folded LeaderElection STOPPED", syncer)
	add(3, "NUL lease lo\x00st", syncer)
	add(4, `{"Cluster":"sel\u0064om"}`, syncer)
	add(5, "nothing of it", syncer)
	add(6, "absent lease lost", nil)
	add(7, "other lease lost", map[string]any{"kube.container": "other"})
	add(8, "own lease lost", map[string]any{"kube.container": "syncer", "service_name": "crowsnest"})
	add(9, "quote \"a|b\" (x) `y` é", syncer)
	add(10, "field lease lost", map[string]any{"container": "syncer", "trace": "t"})
	for i := range 12_000 {
		add(0, fmt.Sprint("tie lease lost ", i), map[string]any{"kube.container": "syncer", "pod": fmt.Sprint("p", i/80)})
	}
	push(t, l.URL, "app,kube.pod/x,kube.container,service_name,pod", rows...)
	set := pack(t, `
- {alert: A, from: '{container="syncer"}', match: lease lost, severity: info}
- {alert: B, from: '{container="syncer"}', match: {regex: "(?i)leaderelection stopped"}, severity: info}
- {alert: C, from: '{container=~"sync.*"}', match: {field: {Cluster: seldom}}, severity: info}
- {alert: D, from: '{container="syncer"}', match: "\"a|b\" (x) `+"`y`"+` é", severity: info}
`)
	cfg := Config{Config: rangeread.Config{URL: l.URL, Selector: `{app=~".+", kube.pod/x="p"}`, Labels: map[string]string{"kube.container": "container"}, LookBack: 50 * time.Minute}}
	for _, limit := range []int{0, 100} { // a limit of 100 divides the lines of one time by streams
		cfg.Limit = limit
		p, _ := readAll(t, cfg, set)
		count := map[string]int{}
		for text, n := range p.Count {
			kind, _, _ := strings.Cut(text, " ")
			require.Equal(t, 1, n, text)
			count[kind]++
		}
		require.Equal(t, map[string]int{"plain": 1, "folded": 1, "NUL": 1, `{"Cluster":"sel\u0064om"}`: 1, "absent": 1, "quote": 1, "field": 1, "tie": 12_000}, count)
		require.Len(t, p.Hits, 12_006)
		require.Equal(t, "app=a,container=syncer,kube.pod/x=p", p.StreamOf("plain lease lost"))
		require.Equal(t, "app=a,container=syncer,kube.pod/x=p", p.StreamOf("field lease lost"))
	}
}

// For every rule of the shipped packs: the queries return each line of its tests that it matches, and the line has
// the same hits.
func TestE2EFilterIsSound(t *testing.T) {
	l := servers.VictoriaLogs(t)
	set, err := rules.Load(rules.Shipped())
	require.NoError(t, err)
	prog, err := matcher.Compile(set)
	require.NoError(t, err)
	now := time.Now().Add(-30 * time.Minute)
	var want []string
	var rows []map[string]any
	names, seen := map[string]bool{"always": true}, map[string]bool{}
	for _, r := range set.Rules {
		for _, test := range r.Tests {
			for _, in := range test.Input {
				labels := map[string]string{"always": "there"}
				maps.Copy(labels, test.Stream)
				maps.Copy(labels, in.Labels)
				maps.DeleteFunc(labels, func(_, v string) bool { return v == "" })
				id := fmt.Sprint(labels, in.Text)
				if strings.TrimSpace(in.Text) == "" || seen[id] {
					continue
				}
				seen[id] = true
				for _, line := range []string{in.Text, in.Text[:len(in.Text)/2] + "\x00" + in.Text[len(in.Text)/2:], strings.ReplaceAll(in.Text, "e", `\u0065`)} {
					now = now.Add(time.Millisecond)
					row := map[string]any{"ts": now.UnixNano(), "m": line}
					for k, v := range labels {
						row[k], names[k] = v, true
					}
					rows = append(rows, row)
					s := matcher.NewStream(labels, matcher.StreamOptions{Format: matcher.FormatText, OfPods: true})
					want = append(want, hitTexts(prog.Match(s, matcher.Record{Time: now.UTC(), Text: []byte(line)}))...)
				}
			}
		}
	}
	for chunk := range slices.Chunk(rows, 5000) {
		push(t, l.URL, strings.Join(slices.Sorted(maps.Keys(names)), ","), chunk...)
	}
	cfg := Config{Config: rangeread.Config{URL: l.URL, Selector: `{always="there", component=~".*"}`, LookBack: time.Hour, Timeout: time.Minute}}
	p, _ := readAll(t, cfg, set)
	t.Logf("%d of %d lines read", p.Total(), len(rows))
	got := hitTexts(p.Hits)
	slices.Sort(got)
	slices.Sort(want)
	require.Equal(t, len(want), len(got))
	require.Equal(t, want, got)
}

func hitTexts(hits []matcher.Hit) (out []string) {
	for _, h := range hits {
		out = append(out, fmt.Sprint(h.Rule.Alert, h.Part, h.Time.UnixNano(), h.Values, h.ID))
	}
	return out
}

// VictoriaLogs parses lines of JSON that it gets by the protocol of Loki.
func TestE2EParsedLines(t *testing.T) {
	l := servers.VictoriaLogs(t)
	w := &lokilab.Writer{URL: l.URL + "/insert"}
	s := lokilab.Stream{Labels: map[string]string{"app": "a"}}
	s.Add(time.Now(), `{"level":"error","msg":"Reconciler error","Cluster":{"name":"c"},"error":"lease lost"}`)
	require.NoError(t, w.Push(t.Context(), []lokilab.Stream{s}))
	set := pack(t, `- {alert: A, from: '{app="a"}', match: {contains: lease lost, field: {Cluster.name: c}}, severity: info}`)
	p, _ := readAll(t, Config{Config: rangeread.Config{URL: l.URL, Selector: `{app="a"}`}, Fields: []string{"*"}}, set)
	require.Equal(t, map[string]int{`{"level":"error","msg":"Reconciler error","Cluster":{"name":"c"},"error":"lease lost"}`: 1}, p.Count)
	require.Len(t, p.Hits, 1)
}

// A query that VictoriaLogs refuses is made smaller.
func TestE2ELimits(t *testing.T) {
	l := servers.VictoriaLogs(t, "-search.maxQueryLen=2000", "-search.maxQueryTimeRange=1m", "-memory.allowedBytes=32MiB")
	now := time.Now()
	var rows []map[string]any
	var yaml strings.Builder
	for i := range 200 {
		fmt.Fprintf(&yaml, "- {alert: R%d, from: '{app=\"a\"}', match: \"bad %03d\", severity: warning}\n", i, i)
		rows = append(rows, map[string]any{"ts": now.Add(-time.Duration(i) * time.Second).UnixNano(), "m": fmt.Sprintf("bad %03d", i), "app": "a"})
	}
	push(t, l.URL, "app", rows...)
	p, s := readAll(t, Config{Config: rangeread.Config{URL: l.URL, Selector: `{app="a"}`}}, pack(t, yaml.String()))
	require.Equal(t, 200, p.Total())
	require.Positive(t, s.Status().Errors["range"])
	require.Positive(t, s.Status().Errors["query_length"])
}

// run runs a source until stop is called.
func run(t testing.TB, s *Source, p *linesink.Sink) (stop func()) {
	t.Helper()
	s.Info().UseRules(p.Set)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx, p) }()
	return func() {
		cancel()
		require.NoError(t, <-done)
	}
}

var pack = linesink.Pack
