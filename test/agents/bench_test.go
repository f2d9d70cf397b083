package agents

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/agent/server"
	"crowsnest/agent/wire"
	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
)

// plain is a pipeline that concludes.
type plain struct {
	sources.Pipeline
	set    *rules.Set
	engine *episodes.Engine
	cut    sync.RWMutex
}

func (p *plain) Ingest(find func(*rules.Set) []matcher.Hit, commit func()) {
	p.cut.RLock()
	defer p.cut.RUnlock()
	p.engine.Take(find(p.set), time.Now())
	if commit != nil {
		commit()
	}
}

func (p *plain) AdvanceWatermark(part string, t time.Time, _ ...matcher.LaggingStream) {
	p.engine.AdvanceWatermark(part, t)
}
func (p *plain) AddMember(part string)    { p.engine.AddSource(part, rules.Lateness, nil) }
func (p *plain) RemoveMember(part string) { p.engine.RemoveSource(part) }

// cluster is an aggregator and simulated nodes.
type cluster struct {
	b       *testing.B
	p       *plain
	handler http.Handler
	next    []uint64 // sequence per node
	id      uint64
}

func newCluster(b *testing.B, nodes, n int) *cluster {
	set := &rules.Set{}
	for i := range n {
		set.Rules = append(set.Rules, &rules.Rule{
			Alert: fmt.Sprintf("Rule%d", i), Severity: rules.SeverityWarning, Mode: rules.ModeOn, Count: 5, Within: 10 * time.Minute, Limit: 100,
			Steps: make([]rules.Step, 1), KeepFiringFor: rules.DefaultKeepFiringFor, Hash: "1", By: []string{"pod"}, CapturedNames: []string{"pod", "lease"},
		})
	}
	p := &plain{set: set, engine: newEngine(set)}
	return &cluster{b: b, p: p, handler: server.New(server.Config{}).Handler(p), next: make([]uint64, nodes)}
}

// message returns the next message of a node, with the given number of hits.
func (c *cluster) message(node, count int) []byte {
	c.next[node]++
	m := wire.Message{Node: fmt.Sprintf("node-%d", node), Instance: "i", Sequence: c.next[node], OldestSequence: c.next[node], SentAt: time.Now(), Watermark: time.Now()}
	var batch wire.Builder
	r := c.p.set.Rules[node%len(c.p.set.Rules)]
	pod := fmt.Sprintf("pod-%d", node)
	labels := matcher.Labels{"namespace": "kube-system", "pod": pod, "container": "c", "filename": "/var/log/pods/kube-system_" + pod + "_1/c/0.log"}
	for range count {
		c.id++
		batch.Add(&matcher.Hit{
			Rule: r, Time: time.Now(), Values: []string{pod, "kube-system/lease"}, Labels: labels, ID: c.id * 0x9E3779B97F4A7C15,
			Line: fmt.Sprintf("E0101 00:00:00.%06d       1 leaderelection.go:330] error retrieving resource lock kube-system/lease: timeout", c.id),
		})
	}
	if count > 0 {
		m.Payload = batch.Seal()
	} else {
		m.Sequence--
		c.next[node]--
	}
	return m.Append(nil)
}

func (c *cluster) post(body []byte) {
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, wire.Path, bytes.NewReader(body)))
	require.Equal(c.b, http.StatusOK, w.Code, w.Body)
}

// BenchmarkAggregator measures one message of one of 200 nodes, including HTTP
// handlers and conclusions but no sockets.
func BenchmarkAggregator(b *testing.B) {
	for _, count := range []int{0, 3, 100, 5000} {
		b.Run(fmt.Sprintf("hits=%d", count), func(b *testing.B) {
			c := newCluster(b, 200, 500)
			for node := range 200 {
				c.post(c.message(node, 1))
			}
			var ready [][]byte
			size := 0
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				if len(ready) == 0 {
					b.StopTimer()
					for range 200 {
						m := c.message(n%200, count)
						size, n = len(m), n+1
						ready = append(ready, m)
					}
					b.StartTimer()
				}
				c.post(ready[0])
				ready = ready[1:]
			}
			b.ReportMetric(float64(size), "bytes/message")
		})
	}
}

// BenchmarkEvaluate measures conclusions with 200 nodes that can serve every
// rule.
func BenchmarkEvaluate(b *testing.B) {
	c := newCluster(b, 200, 500)
	for node := range 200 {
		c.post(c.message(node, 10))
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	for b.Loop() {
		c.p.engine.Evaluate(time.Now())
	}
	b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "MiB-heap")
}

// BenchmarkFold measures the cost of a hit on the agent.
func BenchmarkFold(b *testing.B) {
	r := &rules.Rule{Alert: "A", Hash: "1", Count: 1, CapturedNames: []string{"pod", "lease"}}
	h := matcher.Hit{Rule: r, Time: time.Now(), Values: []string{"pod-1", "lease"}, Labels: matcher.Labels{"pod": "pod-1"}, Line: "error retrieving resource lock"}
	var batch wire.Builder
	size := 0
	b.ReportAllocs()
	for b.Loop() {
		h.ID += 0x9E3779B97F4A7C15
		h.Time = h.Time.Add(time.Millisecond)
		batch.Add(&h)
		if batch.IsFull() {
			n := batch.Len()
			size = len(batch.Seal()) / n
		}
	}
	b.ReportMetric(float64(size), "bytes/hit")
}
