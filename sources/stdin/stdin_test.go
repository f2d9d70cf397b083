package stdin

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"crowsnest/matcher"
	"crowsnest/rules/selector"
	"crowsnest/sources"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ sources.Source = (*Source)(nil)

// pipe stores lines.
type pipe struct {
	sources.Pipeline // nil: for unused methods

	mu        sync.Mutex
	lines     []string
	flushes   int
	longest   int
	watermark time.Time
}

func (p *pipe) Scan(_ *matcher.Stream, block []byte, commit func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, strings.Split(strings.TrimSuffix(string(block), "\n"), "\n")...)
	p.longest = max(p.longest, len(block))
	commit()
}
func (p *pipe) Match(*matcher.Stream, matcher.Record, func()) {}
func (p *pipe) Flush(*matcher.Stream)                         { p.mu.Lock(); defer p.mu.Unlock(); p.flushes++ }

func (p *pipe) AdvanceWatermark(_ string, at time.Time, _ ...matcher.LaggingStream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watermark = at
}

func (p *pipe) taken() []string { p.mu.Lock(); defer p.mu.Unlock(); return slices.Clone(p.lines) }

func TestReadsToTheEnd(t *testing.T) {
	f := func(r io.Reader, want ...string) {
		t.Helper()
		p := &pipe{}
		require.NoError(t, New(Config{Reader: r}).Run(context.Background(), p))
		require.Equal(t, want, p.lines)
		require.NotZero(t, p.flushes)
		require.False(t, p.watermark.IsZero())
	}
	f(strings.NewReader("a\nb\n"), "a", "b")
	f(strings.NewReader("a\nb"), "a", "b")
	f(iotest.OneByteReader(strings.NewReader("a\n\nb\r\n")), "a", "", "b\r")
	f(iotest.DataErrReader(strings.NewReader("a\nb")), "a", "b")
	f(strings.NewReader(""))
	long := strings.Repeat("x", 3*blockSize)
	f(strings.NewReader("a\n"+long+"\nb\n"), "a", long[:keepSize], "b")
	f(strings.NewReader(long), long[:keepSize])
}

func TestReadError(t *testing.T) {
	s := New(Config{Reader: iotest.ErrReader(errors.New("broken"))})
	require.ErrorContains(t, s.Run(context.Background(), &pipe{}), "broken")
	require.Equal(t, int64(1), s.Status().Errors["read"])
	require.False(t, s.Status().Up)
	require.True(t, s.Status().Opened)
	require.Error(t, New(Config{}).Run(context.Background(), &pipe{}))
}

func TestIdleAndCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		p := &pipe{}
		s := New(Config{Reader: r})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx, p) }()
		_, err := w.Write([]byte("a\nlost"))
		require.NoError(t, err)
		<-time.After(10 * time.Second)
		require.Equal(t, []string{"a", "lost"}, p.taken()) // once
		_, err = w.Write([]byte(" and found\n"))
		require.NoError(t, err)
		<-time.After(time.Second)
		require.Equal(t, []string{"a", "lost", "lost and found"}, p.taken())
		cancel()
		require.NoError(t, <-done)
		require.WithinDuration(t, time.Now(), p.watermark, 2*time.Second)
	})
}

func TestServes(t *testing.T) {
	sel, err := selector.Parse(`{job="x"}`)
	require.NoError(t, err)
	require.True(t, New(Config{Labels: map[string]string{"job": "x"}}).Serves(sel))
	require.False(t, New(Config{Labels: map[string]string{"job": "y"}}).Serves(sel))
	require.False(t, New(Config{}).Serves(sel))
	require.Error(t, Config{Labels: map[string]string{"a b": ""}}.Validate())
	require.NoError(t, Config{Labels: map[string]string{"a": ""}}.Validate())
}

// The sizes of reads do not change the lines.
func FuzzPieces(f *testing.F) {
	f.Add("a\nb\n\nc", uint64(1))
	f.Add(strings.Repeat("x", 1000)+"\n", uint64(2))
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		rd := rand.New(rand.NewPCG(seed, 1))
		pieces := &pieceReader{text: text, n: func() int { return rd.IntN(32) + 1 }}
		p := &pipe{}
		require.NoError(t, New(Config{Reader: pieces}).Run(context.Background(), p))
		var want []string
		if text != "" {
			want = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		}
		require.Equal(t, want, p.lines)
	})
}

type pieceReader struct {
	text string
	n    func() int
}

func (r *pieceReader) Read(b []byte) (int, error) {
	if r.text == "" {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), r.n())], r.text)
	r.text = r.text[n:]
	return n, nil
}
