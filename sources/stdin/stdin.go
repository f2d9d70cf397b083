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
	"regexp"
	"slices"
	"sync"
	"time"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
)

const (
	blockSize = 256 << 10 // of whole lines
	keepSize  = 64 << 10  // of a line that does not fit a block
	idleAfter = time.Second
)

// Config says what the pipe carries.
type Config struct {
	// Name is the source's name. Default "stdin".
	Name string `yaml:"name" bounds:"0,4096"`
	// Labels are what rules select by.
	Labels map[string]string `yaml:"labels" bounds:"0,64,4096"`

	// Reader is what is read, standard input in the daemon. If it is an
	// io.Closer it is closed when Run is told to end.
	Reader io.Reader `yaml:"-"`
	// Clock is time.Now; tests set another one.
	Clock func() time.Time `yaml:"-"`
}

var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// Validate returns everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		if !labelName.MatchString(name) {
			errs = append(errs, fmt.Errorf("stdin: label %q is not a label name: use letters, digits and _", name))
		}
	}
	return errors.Join(errs...)
}

// Source reads one pipe. What was read cannot be read again, so it has no
// positions.
type Source struct {
	cfg    Config
	stream *matcher.Stream

	mu     sync.Mutex
	status sources.Status
}

// New returns a source that reads nothing yet.
func New(cfg Config) *Source {
	if cfg.Name == "" {
		cfg.Name = "stdin"
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	stream := matcher.NewStream(cfg.Labels, matcher.StreamOptions{})
	stream.Place(0)
	return &Source{
		cfg:    cfg,
		stream: stream,
		status: sources.Status{Name: cfg.Name, Lost: map[string]int64{"long_line": 0}, Errors: map[string]int64{"read": 0}},
	}
}

// Name is "stdin" unless the configuration has another.
func (s *Source) Name() string { return s.cfg.Name }

// Serves tells whether the selector holds for the configured labels. A pipe
// without labels serves no selector that asks for one.
func (s *Source) Serves(from rules.Selector) bool { return from.Matches(s.cfg.Labels, false) }

// Local tells that lines without a time, which most are here, get it from our
// clock.
func (s *Source) Local() {}

// Positions returns nil: a pipe has none.
func (s *Source) Positions() json.RawMessage { return nil }

// Restore does nothing.
func (s *Source) Restore(json.RawMessage) error { return nil }

// Status is safe for concurrent use.
func (s *Source) Status() sources.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	st.Lost, st.Errors = maps.Clone(st.Lost), maps.Clone(st.Errors)
	st.Streams = slices.Clone(st.Streams)
	return st
}

// chunk is what one read returned.
type chunk struct {
	data []byte
	err  error
}

// Run reads until the pipe ends or ctx ends. A read that is under way when ctx
// ends is ended by closing the reader. Where that is not possible, as with a
// terminal, one goroutine stays in the read until the process ends.
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

// read hands on what the reader returns, in the one buffer that goes to and fro.
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

// take cuts chunks into blocks of whole lines.
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
				s.prove(p)
				return nil
			}
			if c.err != nil {
				s.set(func(st *sources.Status) { st.Errors["read"]++; st.Error = c.err.Error() })
				return fmt.Errorf("read %s: %w", s.cfg.Name, c.err)
			}
		case <-idle.C:
			// A pipe that is open and silent has been read to its end.
			if s.cfg.Clock().Sub(moved) >= idleAfter {
				l.show()
			}
			s.prove(p)
		}
	}
}

func (s *Source) set(f func(*sources.Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.status)
}

func (s *Source) prove(p sources.Pipeline) {
	now := s.cfg.Clock()
	s.set(func(st *sources.Status) { st.Watermark = now })
	p.AdvanceWatermark(s.cfg.Name, now)
}

// lines keeps the start of a line whose end was not read yet.
type lines struct {
	s    *Source
	p    sources.Pipeline
	buf  []byte // at most blockSize
	lost int64  // bytes of the line in buf that were dropped
	seen int64  // lost plus length of buf when it was last matched as it is
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

// end takes what has no line end as a line.
func (l *lines) end() {
	if len(l.buf) > 0 {
		l.flush(len(l.buf))
	}
	l.p.Flush(l.s.stream)
}

// show matches a line without its end as it is. When the end comes, the whole
// line is matched.
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
