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

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
)

const (
	blockSize = 256 << 10 // size of a block of whole lines
	keepSize  = 64 << 10  // number of bytes that are kept of a longer line
	idleAfter = time.Second
)

// Config describes the pipe.
type Config struct {
	// Name is the source's name if there are several of the kind. Default: the kind.
	Name string `yaml:"name" bounds:"0,4096"`
	// Labels are the labels of the lines.
	Labels map[string]string `yaml:"labels" bounds:"0,64,4096"`

	// Reader is the pipe. The daemon uses standard input. If Reader is an io.Closer, Run closes
	// it at the end.
	Reader io.Reader `yaml:"-"`
	// Clock replaces time.Now in tests.
	Clock func() time.Time `yaml:"-"`
}

// Validate returns all errors of the configuration.
func (c Config) Validate() error {
	return errors.Join(sources.CheckLabels("stdin", c.Labels, "")...)
}

// Source reads one pipe. It has no positions, because a pipe cannot be read twice.
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
	stream.SetOffset(0)
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

// Info implements sources.Source. Most lines have no timestamp, so our clock stamps them.
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

// Run reads until the end of the pipe or until ctx ends. When ctx ends, Run closes the reader
// to end a blocked read. If the reader cannot be closed, for example a terminal, one goroutine
// stays blocked until the process ends.
func (s *Source) Run(ctx context.Context, p sources.Pipeline) error {
	if s.cfg.Reader == nil {
		return errors.New("stdin: there is nothing to read from")
	}
	s.updateStatus(func(st *sources.Status) { st.Up, st.Opened = true, true })
	defer s.updateStatus(func(st *sources.Status) { st.Up = false })
	chunks := make(chan chunk)
	back := make(chan []byte, 1)
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		readChunks(s.cfg.Reader, chunks, back, stop)
	}()
	back <- make([]byte, blockSize)
	err := s.passChunks(ctx, p, chunks, back)
	close(stop)
	if ctx.Err() == nil {
		<-ended
	} else if c, ok := s.cfg.Reader.(io.Closer); ok {
		_ = c.Close()
	}
	return err
}

// readChunks sends the data that it reads to chunks. It uses a single buffer, which the
// receiver returns through back.
func readChunks(r io.Reader, chunks chan<- chunk, back <-chan []byte, stop <-chan struct{}) {
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

// passChunks splits the chunks into blocks of whole lines and passes them to the pipeline.
func (s *Source) passChunks(ctx context.Context, p sources.Pipeline, chunks <-chan chunk, back chan<- []byte) error {
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
			l.addBytes(c.data)
			back <- c.data[:cap(c.data)]
			if errors.Is(c.err, io.EOF) {
				l.endLine()
				s.advanceWatermark(p)
				return nil
			}
			if c.err != nil {
				s.updateStatus(func(st *sources.Status) { st.Errors["read"]++; st.Error = c.err.Error() })
				return fmt.Errorf("read %s: %w", s.cfg.Name, c.err)
			}
		case <-idle.C:
			// An open pipe without new data counts as completely read.
			if s.cfg.Clock().Sub(moved) >= idleAfter {
				l.showIncomplete()
			}
			s.advanceWatermark(p)
		}
	}
}

func (s *Source) updateStatus(f func(*sources.Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.status)
}

func (s *Source) advanceWatermark(p sources.Pipeline) {
	now := s.cfg.Clock()
	s.updateStatus(func(st *sources.Status) { st.Watermark = now })
	p.AdvanceWatermark(s.cfg.Name, now)
}

// lines splits a pipe into lines. It keeps the start of an incomplete line.
type lines struct {
	s    *Source
	p    sources.Pipeline
	buf  []byte // start of the incomplete line, at most blockSize bytes
	lost int64  // number of bytes of the incomplete line that were dropped
	seen int64  // length of the incomplete line when showIncomplete last matched it
}

func (l *lines) addBytes(b []byte) {
	for len(b) > 0 {
		if l.lost > 0 {
			nl := bytes.IndexByte(b, '\n')
			if nl < 0 {
				l.lost += int64(len(b))
				return
			}
			l.lost += int64(nl)
			l.flushBytes(len(l.buf))
			b = b[nl+1:]
			continue
		}
		n := min(len(b), blockSize-len(l.buf))
		l.buf = append(l.buf, b[:n]...)
		b = b[n:]
		if nl := bytes.LastIndexByte(l.buf, '\n') + 1; nl > 0 {
			l.flushBytes(nl)
		} else if len(l.buf) == blockSize {
			l.buf, l.lost = l.buf[:keepSize], blockSize-keepSize
		}
	}
}

// endLine treats an unterminated rest as a line.
func (l *lines) endLine() {
	if len(l.buf) > 0 {
		l.flushBytes(len(l.buf))
	}
	l.p.Flush(l.s.stream)
}

// showIncomplete matches an incomplete line. The whole line is matched when its end arrives.
func (l *lines) showIncomplete() {
	if n := l.lost + int64(len(l.buf)); n != l.seen {
		l.seen = n
		if n > 0 {
			l.p.Scan(l.s.stream, l.buf, func() {})
		}
	}
	l.p.Flush(l.s.stream)
}

func (l *lines) flushBytes(n int) {
	lost := l.lost
	l.lost, l.seen = 0, 0
	l.p.Scan(l.s.stream, l.buf[:n], func() {
		c := l.s.stream.Counters()
		now := l.s.cfg.Clock()
		l.s.updateStatus(func(st *sources.Status) {
			st.SetCounters(c)
			st.Lost["long_line"] += lost
			st.Streams = []sources.StreamStatus{{
				Labels: l.s.stream.Labels(), Offset: c.Bytes, Size: c.Bytes, Lines: c.Lines, LastRead: now,
			}}
		})
	})
	l.buf = append(l.buf[:0], l.buf[n:]...)
}
