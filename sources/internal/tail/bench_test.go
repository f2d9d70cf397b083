package tail

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/sources"
	"crowsnest/sources/internal/logdir"
	"crowsnest/test/kubesim"
)

// sink discards everything.
type sink struct {
	sources.Pipeline // nil: for unused methods

	bytes int64
}

func (s *sink) Scan(_ *matcher.Stream, block []byte, commit func()) {
	s.bytes += int64(len(block))
	commit()
}
func (s *sink) Match(*matcher.Stream, matcher.Record, func())                {}
func (s *sink) Flush(*matcher.Stream)                                        {}
func (s *sink) AdvanceWatermark(string, time.Time, ...matcher.LaggingStream) {}

// steps runs a Tailer without its goroutines.
func steps(b *testing.B, finder Finder) (*Tailer, *worker) {
	tl := New(Config{NoWatch: true, LookBack: -1}, finder)
	tl.p = &sink{}
	tl.pipeline.open(tl.p)
	b.Cleanup(func() {
		for _, c := range tl.followers {
			c.closeAll()
		}
		tl.trees[0].root.Close()
	})
	tl.findAll(nil, true)
	return tl, &worker{}
}

// BenchmarkRead is the reading of a file, without matching.
func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	line := "2026-01-02T03:04:05.123456789Z stderr F " + strings.Repeat("x", 300) + "\n"
	require.NoError(b, os.WriteFile(filepath.Join(dir, "x.log"), []byte(strings.Repeat(line, 64<<20/len(line))), 0o644))
	b.SetBytes(64 << 20)
	b.ReportAllocs()
	for b.Loop() {
		tl, w := steps(b, plainFinder(dir, "x.log"))
		for _, c := range tl.followers {
			for c.runTurn(w) {
			}
			c.closeAll()
		}
	}
}

// BenchmarkIdle is one poll of 500 containers in which nothing happens.
func BenchmarkIdle(b *testing.B) {
	root := b.TempDir()
	for i := range 500 {
		c := kubesim.New(kubesim.Options{Root: root, Pod: fmt.Sprintf("pod-%d", i)})
		c.Write("stdout", "text")
		c.Close()
		require.NoError(b, c.Err)
	}
	tl, w := steps(b, podFinder(root))
	poll := func() {
		tl.findAll(nil, false)
		for _, c := range tl.followers {
			for c.runTurn(w) {
			}
		}
	}
	// Until the directories have settled, each poll lists them.
	<-time.After(logdir.Settled + 100*time.Millisecond)
	poll()
	b.ReportAllocs()
	for b.Loop() {
		poll()
	}
}
