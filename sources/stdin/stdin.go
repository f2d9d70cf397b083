// Package stdin reads lines from a pipe.
package stdin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/common/model"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
)

const (
	blockSize = 256 << 10 // size of a block of whole lines
	keepSize  = 64 << 10  // bytes of a longer line that are stored
	idleAfter = time.Second
)

// Config describes the pipe.
type Config struct {
	// Name is the source's name if there are several of the kind. Default: the kind.
	Name string `yaml:"name" bounds:"0,4096"`
	// Labels are the labels of its lines.
	Labels map[string]string `yaml:"labels" bounds:"0,64,4096"`

	// Reader is the pipe; the daemon sets standard input. If it is an io.Closer,
	// Run closes it at its end.
	Reader io.Reader `yaml:"-"`
	// Clock is time.Now; tests set another one.
	Clock func() time.Time `yaml:"-"`
}

// Validate returns all errors of the configuration.
func (c Config) Validate() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		if !model.LegacyValidation.IsValidLabelName(name) {
			errs = append(errs, fmt.Errorf("stdin: label %q is not a label name: use letters, digits and _", name))
		}
	}
	return errors.Join(errs...)
}

// Source reads one pipe. It cannot read again, so it has no positions.
type Source struct {
	cfg    Config
	stream *matcher.Stream

	mu     sync.Mutex
	status sources.Status
}

// New returns a source. It does no I/O.
func New(cfg Config) *Source {
	if cfg.Name == "" {
		cfg.Name = "stdin"
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	stream := matcher.NewStream(cfg.Labels, matcher.StreamOptions{Join: matcher.JoinStream})
	stream.Place(0)
	return &Source{
		cfg:    cfg,
		stream: stream,
		status: sources.Status{Name: cfg.Name, Lost: map[string]int64{"long_line": 0}, Errors: map[string]int64{"read": 0}},
	}
}

// Name returns "stdin" unless the configuration sets another name.
func (s *Source) Name() string { return s.cfg.Name }

// Serves reports whether the configured labels satisfy the selector. A pipe without
// labels satisfies no selector that requires one.
func (s *Source) Serves(from rules.Selector) bool { return from.Matches(s.cfg.Labels, false) }

// Info implements sources.Source. Our clock stamps the lines, because most have no
// timestamp.
func (s *Source) Info() sources.Info { return sources.Info{Local: true} }

// Positions returns nil, because a pipe has no positions.
func (s *Source) Positions() json.RawMessage { return nil }

// Restore does nothing.
func (s *Source) Restore(json.RawMessage) error { return nil }

// Status implements sources.Source.
func (s *Source) Status() sources.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	st.Lost, st.Errors = maps.Clone(st.Lost), maps.Clone(st.Errors)
	st.Streams = slices.Clone(st.Streams)
	return st
}

type chunk struct {
	data []byte
	err  error
}

// Run reads until the end of the pipe or of ctx. When ctx ends, Run closes the reader to
// end a blocked read. If that is impossible, as with a terminal, one goroutine stays
// blocked until the process ends.
func (s *Source) Run(ctx context.Context, p sources.Pipeline) error {
	if s.cfg.Reader == nil {
		return errors.New("stdin: there is nothing to read from")
	}
	s.set(func(st *sources.Status) { st.Up, st.Opened = true, true })
	defer s.set(func(st *sources.Status) { st.Up = false })
	chunks := make(chan chunk)
	back := make(chan []byte, 1)
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		read(s.cfg.Reader, chunks, back, stop)
	}()
	back <- make([]byte, blockSize)
	err := s.take(ctx, p, chunks, back)
	close(stop)
	if ctx.Err() == nil {
		<-ended
	} else if c, ok := s.cfg.Reader.(io.Closer); ok {
		_ = c.Close()
	}
	return err
}

// read sends what the reader returns, in a single buffer that the receiver returns.
func read(r io.Reader, chunks chan<- chunk, back <-chan []byte, stop <-chan struct{}) {
	for {
		var buf []byte
		select {
		case buf = <-back:
		case <-stop:
			return
		}
		n, err := r.Read(buf)
		select {
		case chunks <- chunk{buf[:n], err}:
		case <-stop:
			return
		}
		if err != nil {
			return
		}
	}
}

// take splits chunks into blocks of whole lines.
func (s *Source) take(ctx context.Context, p sources.Pipeline, chunks <-chan chunk, back chan<- []byte) error {
	l := &lines{s: s, p: p}
	idle := time.NewTicker(idleAfter)
	defer idle.Stop()
	moved := s.cfg.Clock()
	for {
		select {
		case <-ctx.Done():
			return nil
		case c := <-chunks:
			moved = s.cfg.Clock()
			l.add(c.data)
			back <- c.data[:cap(c.data)]
			if errors.Is(c.err, io.EOF) {
				l.end()
				s.advanceWatermark(p)
				return nil
			}
			if c.err != nil {
				s.set(func(st *sources.Status) { st.Errors["read"]++; st.Error = c.err.Error() })
				return fmt.Errorf("read %s: %w", s.cfg.Name, c.err)
			}
		case <-idle.C:
			// A silent open pipe has been read completely.
			if s.cfg.Clock().Sub(moved) >= idleAfter {
				l.show()
			}
			s.advanceWatermark(p)
		}
	}
}

func (s *Source) set(f func(*sources.Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.status)
}

func (s *Source) advanceWatermark(p sources.Pipeline) {
	now := s.cfg.Clock()
	s.set(func(st *sources.Status) { st.Watermark = now })
	p.AdvanceWatermark(s.cfg.Name, now)
}

// lines keeps the beginning of an incomplete line.
type lines struct {
	s    *Source
	p    sources.Pipeline
	buf  []byte // at most blockSize
	lost int64  // bytes dropped from the line in buf
	seen int64  // lost plus the length of buf when show last matched it
}

func (l *lines) add(b []byte) {
	for len(b) > 0 {
		if l.lost > 0 {
			nl := bytes.IndexByte(b, '\n')
			if nl < 0 {
				l.lost += int64(len(b))
				return
			}
			l.lost += int64(nl)
			l.flush(len(l.buf))
			b = b[nl+1:]
			continue
		}
		n := min(len(b), blockSize-len(l.buf))
		l.buf = append(l.buf, b[:n]...)
		b = b[n:]
		if nl := bytes.LastIndexByte(l.buf, '\n') + 1; nl > 0 {
			l.flush(nl)
		} else if len(l.buf) == blockSize {
			l.buf, l.lost = l.buf[:keepSize], blockSize-keepSize
		}
	}
}

// end accepts an unterminated rest as a line.
func (l *lines) end() {
	if len(l.buf) > 0 {
		l.flush(len(l.buf))
	}
	l.p.Flush(l.s.stream)
}

// show matches an incomplete line. When its end arrives, the whole line is matched.
func (l *lines) show() {
	if n := l.lost + int64(len(l.buf)); n != l.seen {
		l.seen = n
		if n > 0 {
			l.p.Scan(l.s.stream, l.buf, func() {})
		}
	}
	l.p.Flush(l.s.stream)
}

func (l *lines) flush(n int) {
	lost := l.lost
	l.lost, l.seen = 0, 0
	l.p.Scan(l.s.stream, l.buf[:n], func() {
		c := l.s.stream.Counters()
		now := l.s.cfg.Clock()
		l.s.set(func(st *sources.Status) {
			st.Count(c)
			st.Lost["long_line"] += lost
			st.Streams = []sources.StreamStatus{{
				Labels: l.s.stream.Labels(), Offset: c.Bytes, Size: c.Bytes, Lines: c.Lines, LastRead: now,
			}}
		})
	})
	l.buf = append(l.buf[:0], l.buf[n:]...)
}
