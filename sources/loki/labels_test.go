package loki

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/rules/selector"
	"crowsnest/sources/internal/rangeread"
	"crowsnest/test/fakeloki"
	"crowsnest/test/linesink"
)

func TestServes(t *testing.T) {
	f := func(cfg Config, from string, want bool) {
		t.Helper()
		sel, err := selector.Parse(from)
		require.NoError(t, err)
		all := New(cfg)
		require.Equal(t, want, all[len(all)-1].Serves(sel))
	}
	c := Config{rangeread.Config{URL: "http://x", Selector: `{cluster="a", env=~"p.*", k8s_ns="n"}`, Labels: map[string]string{"k8s_ns": "namespace"}}}
	f(c, `{cluster="a"}`, true)
	f(c, `{cluster="b"}`, false)
	f(c, `{env="q"}`, true) // not known
	f(c, `{namespace="n"}`, true)
	f(c, `{namespace="m"}`, false)
	f(c, `{anything="x"}`, true)
	f(c, `{tenant="t"}`, true)
	c.Tenants = []string{"t", "u"}
	f(c, `{tenant="t"}`, false)
	f(c, `{tenant="u"}`, true)
	c.Labels = map[string]string{"other": "cluster"}
	f(c, `{cluster="b"}`, true) // label other may have this value
}

// Tenants are separate sources: one that is down does not delay the others.
func TestTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fakeloki.New()
		l.Tenants = []string{"a"}
		cfg := config(l)
		cfg.Tenants = []string{"a", "b"}
		all := New(cfg)
		require.Len(t, all, 2)
		require.Equal(t, "loki-a", all[0].Name())
		require.Equal(t, "loki-b", all[1].Name())
		p := linesink.New(pack(t, `- {alert: R, from: '{app="a"}', match: bad, by: [tenant], severity: warning}`))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		for _, s := range all {
			s.Info().UseRules(p.Set)
			go func() { done <- s.Run(ctx, p) }()
		}
		b := &bench{t: t, loki: l, sink: p}
		b.wait(10 * time.Second)
		for _, tenant := range cfg.Tenants {
			l.Push(fakeloki.Entry{Tenant: tenant, Labels: labelsA, Time: time.Now(), Line: "bad"})
		}
		b.wait(10 * time.Second)
		require.Equal(t, 1, p.Total())
		require.True(t, all[0].Status().Up)
		require.Contains(t, all[1].Status().Error, "401")
		require.WithinDuration(t, time.Now(), p.Watermark["loki-a"], 10*time.Second)
		require.Zero(t, p.Watermark["loki-b"])
		cancel()
		require.NoError(t, errors.Join(<-done, <-done))
		require.Equal(t, "app=a,tenant=a", p.Lines[0].Stream)
		require.Equal(t, []string{"a"}, p.Hits[0].Values)
	})
}

// Structured metadata distinguishes entries, and can provide labels that the stream
// lacks.
func TestMetadata(t *testing.T) {
	inBubble(t, func(c *Config) { c.Labels = map[string]string{"k8s_pod_name": "pod"} }, func(b *bench) {
		b.sink.Swap(pack(t, `- {alert: R, from: '{app="a", pod=~"p.*"}', match: bad, by: [pod, zone], severity: warning}`))
		b.wait(5 * time.Second)
		push := func(kv ...string) {
			meta := map[string]string{}
			for i := 0; i < len(kv); i += 2 {
				meta[kv[i]] = kv[i+1]
			}
			b.loki.Push(fakeloki.Entry{Labels: labelsA, Time: time.Now(), Line: "bad", Metadata: meta})
			b.wait(2 * time.Second)
		}
		push("k8s_pod_name", "p1", "trace_id", "1")
		push("k8s_pod_name", "p1", "trace_id", "2")
		push("pod", "p2", "zone", "z")
		push("trace_id", "3")
		b.loki.Push(fakeloki.Entry{Labels: labelsA, Time: time.Now(), Line: "bad", Metadata: map[string]string{"trace_id": "4"}},
			fakeloki.Entry{Labels: labelsA, Time: time.Now(), Line: "bad", Metadata: map[string]string{"trace_id": "5"}})
		b.wait(20 * time.Second)
		require.Equal(t, 6, b.sink.Total())
		var streams []string
		for _, l := range b.sink.Lines {
			streams = append(streams, l.Stream)
		}
		require.Equal(t, []string{"app=a,pod=p1", "app=a,pod=p1", "app=a,pod=p2,zone=z", "app=a", "app=a", "app=a"}, streams)
		require.Len(t, b.sink.Hits, 3)
		require.Equal(t, []string{"p2", "z"}, b.sink.Hits[2].Values)
		require.Len(t, b.src.Status().Streams, 3)
	})
}

// Lines that this program writes are never read.
func TestOwnStreams(t *testing.T) {
	inBubble(t, func(c *Config) {
		c.SelfNamespace, c.SelfPod = "monitoring", "crowsnest-0"
		c.Labels = map[string]string{"k8s_pod_name": "pod"}
	}, func(b *bench) {
		b.wait(time.Second)
		push := func(text string, labels map[string]string, meta map[string]string) {
			labels["app"] = "a"
			b.loki.Push(fakeloki.Entry{Labels: labels, Time: time.Now(), Line: text, Metadata: meta})
		}
		push("bad own", map[string]string{"service_name": "crowsnest"}, nil)
		push("bad own pod", map[string]string{"namespace": "monitoring", "k8s_pod_name": "crowsnest-0"}, nil)
		push("bad own pod by metadata", map[string]string{"namespace": "monitoring"}, map[string]string{"k8s_pod_name": "crowsnest-0"})
		push("bad other", map[string]string{"namespace": "other", "pod": "crowsnest-0"}, nil)
		push("bad other service", map[string]string{"service_name": "other"}, nil)
		b.wait(30 * time.Second)
		b.once("bad other", "bad other service")
		require.Equal(t, 2, b.sink.Total())
		require.Len(t, b.src.Status().Streams, 2)
	})
}

func TestIgnoreLabels(t *testing.T) {
	inBubble(t, func(c *Config) { c.IgnoreLabels = []string{"instance"} }, func(b *bench) {
		b.wait(time.Second)
		at := time.Now()
		for _, l := range []map[string]string{{"app": "a"}, {"app": "a", "instance": "i", "filename": "f"}, {"app": "a", "pod": "p"}} {
			b.loki.Push(fakeloki.Entry{Labels: l, Time: at, Line: "bad"})
		}
		b.wait(5 * time.Second)
		require.Len(t, b.sink.Hits, 3)
		ids := map[uint64]bool{}
		for _, h := range b.sink.Hits {
			ids[h.ID] = true
		}
		require.Len(t, ids, 2)
	})
}

func TestReadRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fakeloki.New()
		cfg := config(l)
		cfg.Limit, cfg.Tenants = 50, []string{"t", "u"}
		began := time.Now()
		const n = 1000
		for _, tenant := range cfg.Tenants {
			for i := range n {
				l.Push(fakeloki.Entry{
					Tenant: tenant, Labels: map[string]string{"app": fmt.Sprint("a", i%7)},
					Time: began.Add(time.Duration(i/30) * time.Second), Line: fmt.Sprint("bad ", i),
				}, fakeloki.Entry{Tenant: tenant, Labels: labelsA, Time: began.Add(time.Duration(i) * time.Millisecond), Line: fmt.Sprint("good ", i)})
			}
		}
		l.Set(fakeloki.Every(3, fakeloki.Reset))
		read := func(rg Range) (count map[string]int, streams map[*matcher.Stream]bool, err error) {
			count, streams = map[string]int{}, map[*matcher.Stream]bool{}
			last, tenant := time.Time{}, ""
			err = ReadRange(t.Context(), cfg, rg, func(s *matcher.Stream, rec matcher.Record) error {
				if s.Labels()["tenant"] != tenant {
					tenant, last = s.Labels()["tenant"], time.Time{}
				}
				require.False(t, rec.Time.Before(last))
				last = rec.Time
				streams[s] = true
				count[tenant+" "+string(rec.Text)]++
				return nil
			})
			return count, streams, err
		}
		count, streams, err := read(Range{From: began, To: began.Add(time.Hour)})
		require.NoError(t, err)
		require.Len(t, count, 4*n)
		require.Len(t, streams, 16)
		for text, k := range count {
			require.Equal(t, 1, k, text)
		}
		count, _, err = read(Range{From: began.Add(time.Second), To: began.Add(3 * time.Second), Rules: pack(t, `- {alert: R, from: '{app=~"a.*"}', match: bad, severity: warning}`)})
		require.NoError(t, err)
		require.Len(t, count, 2*60)
		count, _, err = read(Range{From: began, To: began.Add(time.Hour), Rules: pack(t, `- {alert: R, from: '{tenant="none"}', match: bad, severity: warning}`)})
		require.NoError(t, err)
		require.Empty(t, count)

		stop := errors.New("enough")
		require.ErrorIs(t, ReadRange(t.Context(), cfg, Range{From: began, To: began.Add(time.Hour)}, func(*matcher.Stream, matcher.Record) error { return stop }), stop)
		l.Set(fakeloki.Status(401, "no org id"))
		_, _, err = read(Range{From: began, To: began.Add(time.Hour)})
		require.ErrorContains(t, err, "read from Loki loki-t: status 401")
		l.Set(fakeloki.Reset)
		_, _, err = read(Range{From: began, To: began.Add(time.Hour)})
		require.ErrorContains(t, err, "connection reset")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l.Set(fakeloki.Hang)
		require.ErrorIs(t, ReadRange(ctx, cfg, Range{From: began, To: began.Add(time.Hour)}, nil), context.DeadlineExceeded)
		require.ErrorContains(t, ReadRange(ctx, Config{}, Range{}, nil), "url")
	})
}
