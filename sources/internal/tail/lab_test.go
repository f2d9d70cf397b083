package tail

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
	"crowsnest/sources/internal/logdir"
	"crowsnest/sources/internal/logname"
)

func TestMain(m *testing.M) {
	// One case takes long under the race detector. make fuzz runs many more.
	if os.Getenv("TAIL_SEEDS") == "" {
		_ = flag.Set("rapid.checks", "40") // before the command line is read, which wins
	}
	goleak.VerifyTestMain(m)
}

// pipe is a pipeline that keeps every line that contains "seq=" or "text", in order, and
// takes consistent snapshots.
type pipe struct {
	sources.Pipeline // nil: for unused methods

	prog *matcher.Program
	cut  sync.RWMutex // the checkpoint lock
	each func()       // runs after each block, outside the lock

	mu        sync.Mutex
	lines     []string
	byID      map[uint64]int
	watermark time.Time
	lagging   []matcher.LaggingStream
	blocks    int
	longest   int
}

// program matches every line that contains "seq=" or "text", also within quotes. Its prefilter is costly.
var program = sync.OnceValues(func() (*matcher.Program, error) {
	return matcher.Compile(&rules.Set{Rules: []*rules.Rule{{
		Alert: "All", Mode: rules.ModeOn, Count: 1,
		Steps: []rules.Step{{Matcher: rules.Matcher{Any: []rules.Matcher{
			{Contains: []string{"seq="}, In: rules.InAnywhere}, {Contains: []string{"text"}, In: rules.InAnywhere},
		}}}},
	}}})
})

func newPipe(t testing.TB) *pipe {
	prog, err := program()
	require.NoError(t, err)
	return &pipe{prog: prog, byID: map[uint64]int{}}
}

func (p *pipe) Scan(s *matcher.Stream, block []byte, commit func()) {
	if p.each != nil {
		defer p.each()
	}
	p.cut.RLock()
	defer p.cut.RUnlock()
	hits := p.prog.Scan(s, block, time.Now())
	p.take(hits)
	commit()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.blocks++
	p.longest = max(p.longest, len(block))
}

func (p *pipe) Match(s *matcher.Stream, rec matcher.Record, commit func()) {
	p.cut.RLock()
	defer p.cut.RUnlock()
	p.take(p.prog.Match(s, rec))
	commit()
}

func (p *pipe) Flush(s *matcher.Stream) {
	p.cut.RLock()
	defer p.cut.RUnlock()
	p.take(p.prog.Flush(s, time.Now()))
}

func (p *pipe) AdvanceWatermark(_ string, at time.Time, lagging ...matcher.LaggingStream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watermark, p.lagging = at, lagging
}

// lag returns the names of the lagging streams, with the times up to which they were read.
func (p *pipe) lag() map[string]time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]time.Time{}
	for _, l := range p.lagging {
		out[cmp.Or(l.Labels["dir"], l.Labels["namespace"])] = l.ReadUpTo
	}
	return out
}

func (p *pipe) watermarkAt() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.watermark
}

func (p *pipe) take(hits []matcher.Hit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range hits {
		p.lines = append(p.lines, h.Line)
		p.byID[h.ID]++
	}
}

func (p *pipe) taken() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines)
}

// snapshot is the content of a state file.
type snapshot struct {
	positions json.RawMessage
	lines     []string
}

func (p *pipe) snapshot(t *Tailer) snapshot {
	p.cut.Lock()
	defer p.cut.Unlock()
	return snapshot{positions: t.Positions(), lines: p.taken()}
}

// podFinder finds container directories two levels down.
func podFinder(root string) Finder {
	return Finder{Root: root, Find: func(list func(string) ([]logdir.Entry, error)) ([]Stream, error) {
		pods, err := list(".")
		if err != nil {
			return nil, err
		}
		var found []Stream
		for _, p := range pods {
			if !p.Dir {
				continue
			}
			cs, err := list(p.Name)
			if err != nil {
				found = append(found, Stream{Key: p.Name, Dir: p.Name, Failed: err, Labels: func() matcher.Labels { return matcher.Labels{"dir": p.Name} }})
				continue
			}
			for _, c := range cs {
				if !c.Dir {
					continue
				}
				dir := p.Name + "/" + c.Name
				found = append(found, Stream{Key: dir, Dir: dir, Order: logname.ParseKubeletName, New: func(path string) *matcher.Stream {
					return matcher.NewStream(matcher.Labels{"dir": dir, "filename": path}, matcher.StreamOptions{})
				}, Labels: func() matcher.Labels { return matcher.Labels{"dir": dir} }, Unknown: []string{"filename"}})
			}
		}
		return found, nil
	}}
}

// plainFinder finds one log by its base name.
func plainFinder(root, base string) Finder {
	return Finder{Root: root, Find: func(list func(string) ([]logdir.Entry, error)) ([]Stream, error) {
		es, err := list(".")
		if err != nil {
			return nil, err
		}
		for _, e := range es {
			if _, ok := logname.OrderByBase(base)(e.Name); ok && !e.Dir {
				return []Stream{{Key: base, Dir: ".", Order: logname.OrderByBase(base), New: func(path string) *matcher.Stream {
					return matcher.NewStream(matcher.Labels{"filename": path}, matcher.StreamOptions{})
				}}}, nil
			}
		}
		return nil, nil
	}}
}

// lab runs a Tailer that can be stopped, killed and started.
type lab struct {
	t      *testing.T
	cfg    Config
	finder Finder
	pipe   *pipe
	each   func() // of the pipe
	tailer *Tailer
	stopIt func()

	abandon func() // stops it and leaves hung operations behind
}

func (l *lab) start(from *snapshot) {
	l.t.Helper()
	l.pipe = newPipe(l.t)
	l.pipe.each = l.each
	l.tailer = New(l.cfg, l.finder)
	if from != nil {
		require.NoError(l.t, l.tailer.Restore(from.positions))
		l.pipe.lines = slices.Clone(from.lines)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	p, tl := l.pipe, l.tailer
	go func() { done <- tl.Run(ctx, p) }()
	l.t.Cleanup(cancel) // for a test that fails
	l.abandon = func() {
		cancel()
		require.NoError(l.t, <-done)
	}
	l.stopIt = func() {
		l.abandon()
		require.Zero(l.t, tl.files.Load(), "descriptors")
	}
}

// stop ends the Tailer as SIGTERM does and returns the state it leaves.
func (l *lab) stop() *snapshot {
	l.t.Helper()
	l.stopIt()
	s := l.pipe.snapshot(l.tailer)
	return &s
}

// kill ends it so that only an earlier snapshot remains.
func (l *lab) kill() { l.stopIt() }

// bubble runs f on a fake clock and real files: once with polling alone, and once with
// inotify events that are read at each poll. The real modification times of the files are
// in the future of the fake clock: no file counts as old, and no directory as settled.
func bubble(t *testing.T, finder func(root string) Finder, f func(t *testing.T, l *lab)) {
	t.Helper()
	for name, cfg := range map[string]Config{"polled": {NoWatch: true}, "watched": {deaf: true}} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				cfg.Source = "test"
				f(t, &lab{t: t, cfg: cfg, finder: finder(root)})
			})
		})
	}
}

// wait lets fake time pass.
func wait(d time.Duration) { <-time.After(d) }

// numbered numbers lines.
type numbered struct {
	n    int
	want []string
}

func (s *numbered) next() string {
	s.n++
	text := fmt.Sprintf("seq=%d", s.n)
	s.want = append(s.want, text)
	return text
}

// requireLines compares two long lists and shows only where they differ.
func requireLines(t *testing.T, want, got []string) {
	t.Helper()
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			lo := max(0, i-2)
			require.Failf(t, "lines differ", "at %d of %d and %d: want %.300q, got %.300q", i, len(want), len(got),
				want[lo:min(len(want), i+3)], got[lo:min(len(got), i+3)])
		}
	}
	require.Equal(t, len(want), len(got), "number of lines; the last one is %.200q", last(got))
}

func last(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[len(s)-1]
}

var _ sources.Pipeline = (*pipe)(nil)
