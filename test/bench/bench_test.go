package bench

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/test/traffic"
)

const blockSize = 256 << 10

// perLine reports the time per line of the log; each iteration processes the
// whole log.
func perLine(b *testing.B, log []byte) {
	lines := bytes.Count(log, []byte("\n"))
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(lines), "ns/line")
}

// BenchmarkMatch measures matcher.Program.Scan alone: envelopes, the search for
// texts, the check of the few lines that have one, and hits.
func BenchmarkMatch(b *testing.B) {
	for _, w := range workloads() {
		b.Run(w.String(), func(b *testing.B) {
			log, p := logOf(w.kind), programOf(w).program
			parts, s := blocks(log, blockSize), newStream(w.kind)
			p.Rules(s)
			b.SetBytes(int64(len(log)))
			b.ReportAllocs()
			hits := 0
			for b.Loop() {
				for _, block := range parts {
					hits += len(p.Scan(s, block, arrival))
				}
			}
			require.Positive(b, hits)
			perLine(b, log)
		})
	}
}

// BenchmarkShare does the same with 1000 rules and an increasing share of
// matching lines.
func BenchmarkShare(b *testing.B) {
	for _, share := range []float64{0.0001, 0.01, 0.1, 0.5} {
		b.Run(fmt.Sprintf("matching=%g%%", share*100), func(b *testing.B) {
			log := traffic.Bytes(logBytes, traffic.Options{Kind: traffic.CRI, Match: share})
			p, s := programOf(workload{traffic.CRI, 1000}).program, newStream(traffic.CRI)
			parts := blocks(log, blockSize)
			b.SetBytes(int64(len(log)))
			b.ReportAllocs()
			for b.Loop() {
				for _, block := range parts {
					p.Scan(s, block, arrival)
				}
			}
			perLine(b, log)
		})
	}
}

// BenchmarkStreams scans the same log in small blocks from one container after
// the other. It reports the memory of the streams.
func BenchmarkStreams(b *testing.B) {
	for _, n := range []int{1, 100, 10000} {
		b.Run(fmt.Sprintf("streams=%d", n), func(b *testing.B) {
			log, p := logOf(traffic.CRI), programOf(workload{traffic.CRI, 100}).program
			parts := blocks(log, 4<<10)
			before := heap()
			streams := make([]*matcher.Stream, n)
			for i := range streams {
				labels := maps.Clone(pod)
				labels["pod"] = fmt.Sprint("pod-", i)
				streams[i] = matcher.NewStream(labels, matcher.StreamOptions{Format: matcher.FormatCRI})
				p.Rules(streams[i])
			}
			kept := heap() - before
			b.SetBytes(int64(len(log)))
			b.ReportAllocs()
			next := 0
			for b.Loop() {
				for _, block := range parts {
					p.Scan(streams[next%n], block, arrival)
					next++
				}
			}
			perLine(b, log)
			b.ReportMetric(float64(kept)/float64(n), "kept-B/stream")
		})
	}
}

// newEngine returns an engine with the rules and a source with a watermark.
func newEngine(set *rules.Set) *episodes.Engine {
	e := episodes.New(episodes.Config{UpdateEvery: time.Minute})
	e.AddSource("bench", 5*time.Second, func(rules.Selector) bool { return true })
	e.Swap(set, arrival)
	return e
}

// BenchmarkTake measures episodes.Engine.Take alone, on the hits of a log.
func BenchmarkTake(b *testing.B) {
	for _, w := range []workload{{traffic.CRI, 1000}, {traffic.Storm, 10}, {traffic.Storm, 1000}, {traffic.Published, 500}} {
		b.Run(w.String(), func(b *testing.B) {
			log, l := logOf(w.kind), programOf(w)
			s := newStream(w.kind)
			var hits [][]matcher.Hit
			for _, block := range blocks(log, blockSize) {
				hits = append(hits, l.program.Scan(s, block, arrival))
			}
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				e := newEngine(l.set)
				b.StartTimer()
				for _, h := range hits {
					e.Take(h, arrival)
					n += len(h)
				}
			}
			require.Positive(b, n)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/hit")
		})
	}
}

// BenchmarkPath measures what one process does with a block, except reading:
// match, conclude, and evaluate five times per second of the log's time.
func BenchmarkPath(b *testing.B) {
	for _, w := range workloads() {
		b.Run(w.String(), func(b *testing.B) {
			log, l := logOf(w.kind), programOf(w)
			parts := blocks(log, blockSize)
			b.SetBytes(int64(len(log)))
			b.ReportAllocs()
			notified := 0
			for b.Loop() {
				b.StopTimer()
				e, s := newEngine(l.set), newStream(w.kind)
				l.program.Rules(s)
				b.StartTimer()
				for _, block := range parts {
					e.Take(l.program.Scan(s, block, arrival), arrival)
					e.AdvanceWatermark("bench", arrival)
					notified += len(e.Evaluate(arrival))
				}
			}
			require.Positive(b, notified)
			perLine(b, log)
		})
	}
}

// BenchmarkReplay measures replay.Scan on a file: reading, matching and
// concluding in event time, on all cores.
func BenchmarkReplay(b *testing.B) {
	for _, w := range workloads() {
		b.Run(w.String(), func(b *testing.B) {
			log, l := fileOf(w.kind), programOf(w)
			name := filepath.Join(b.TempDir(), "x.log")
			require.NoError(b, os.WriteFile(name, log, 0o600))
			b.SetBytes(int64(len(log)))
			b.ReportAllocs()
			for b.Loop() {
				in := replay.Input{Name: name, Labels: pod, Open: func() (io.ReadCloser, error) { return os.Open(name) }}
				report, err := replay.Scan(l.set, l.program, []replay.Input{in}, replay.ScanOptions{Now: arrival})
				require.NoError(b, err)
				require.Positive(b, report.Hits)
			}
			perLine(b, log)
		})
	}
}

// BenchmarkLoad measures parsing a pack.
func BenchmarkLoad(b *testing.B) {
	eachSet(b, func(b *testing.B, w workload) {
		signatures := w.signatures()
		for b.Loop() {
			_, err := load(signatures)
			require.NoError(b, err)
		}
	})
}

// BenchmarkCompile measures compiling a program and preparing it for the first
// stream. It reports the memory of the program.
func BenchmarkCompile(b *testing.B) {
	eachSet(b, func(b *testing.B, w workload) {
		set := programOf(w).set
		prepare := func() *matcher.Program {
			p, err := compile(set)
			require.NoError(b, err)
			p.Rules(newStream(w.kind))
			return p
		}
		before := heap()
		p := prepare()
		kept := heap() - before
		runtime.KeepAlive(p)
		for b.Loop() {
			prepare()
		}
		b.ReportMetric(float64(kept)/1e3, "kept-KB")
	})
}

func eachSet(b *testing.B, f func(*testing.B, workload)) {
	for _, w := range workloads() {
		if w.kind == traffic.CRI || w.kind == traffic.Published {
			b.Run(w.String(), func(b *testing.B) { f(b, w) })
		}
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
