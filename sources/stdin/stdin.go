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
	keepSize  = 64 << 10  // number of bytes of a longer line that are kept
	idleAfter = time.Second
)

// Config describes the pipe.
type Config struct {
	sources.Common `yaml:",inline"`
	// Labels are the labels of the lines.
	Labels map[string]string `yaml:"labels" bounds:"0,64,4096"`

	// Reader is the pipe. The daemon uses standard input. If Reader is an io.Closer, Run closes it when it stops.
	Reader io.Reader `yaml:"-"`
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
	cfg.Common = cfg.WithDefaults("stdin")
	stream := matcher.NewStream(cfg.Labels, matcher.StreamOptions{Join: matcher.JoinStream})
	stream.SetOffset(0)
	return &Source{
		cfg:    cfg,
		stream: stream,
		status: sources.Status{Name: cfg.Name, LostBytes: map[string]int64{"long_line": 0}, Errors: map[string]int64{"read": 0}},
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
	st.LostBytes, st.Errors = maps.Clone(st.LostBytes), maps.Clone(st.Errors)
	st.Streams = slices.Clone(st.Streams)
	return st
}

// Run reads until the end of the pipe or until ctx ends. When ctx ends, Run closes the reader to end a blocked read. If
// the reader cannot be closed, for example a terminal, one goroutine stays blocked until the process ends.
func (s *Source) Run(ctx context.Context, p sources.Pipeline) error {
	if s.cfg.Reader == nil {
		return errors.New("stdin: there is nothing to read from")
	}
	s.updateStatus(func(st *sources.Status) { st.Up, st.Opened = true, true })
	defer s.updateStatus(func(st *sources.Status) { st.Up = false })
	reads := make(chan read)
	go s.readAll(ctx, reads)
	l := &lines{s: s, p: p, lastReadAt: s.cfg.Clock()}
	idle := time.NewTicker(idleAfter)
	defer idle.Stop()
	for {
		select {
		case <-ctx.Done():
			if c, ok := s.cfg.Reader.(io.Closer); ok {
				_ = c.Close()
			}
			return nil
		case r := <-reads:
			l.lastReadAt = s.cfg.Clock()
			l.addBytes(r.data)
			switch {
			case errors.Is(r.err, io.EOF):
				l.end()
				return nil
			case r.err != nil:
				s.updateStatus(func(st *sources.Status) { st.Errors["read"]++; st.Error = r.err.Error() })
				return fmt.Errorf("read %s: %w", s.cfg.Name, r.err)
			}
		case <-idle.C:
			l.handleIdle()
		}
	}
}

// read is the result of one read of the pipe.
type read struct {
	data []byte
	err  error
}

// readAll sends the results of reads until one fails or ctx ends. It alternates between two buffers, because the
// receiver uses the data of a read until it receives the next one.
func (s *Source) readAll(ctx context.Context, reads chan<- read) {
	for buf, other := make([]byte, blockSize), make([]byte, blockSize); ; buf, other = other, buf {
		n, err := s.cfg.Reader.Read(buf)
		select {
		case reads <- read{buf[:n], err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
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
	s *Source
	p sources.Pipeline

	lastReadAt    time.Time // time of the last read
	buf           []byte    // start of the incomplete line, at most blockSize bytes
	droppedBytes  int64     // number of bytes of the incomplete line that were dropped
	matchedLength int64     // length of the incomplete line when handleIdle last matched it
}

// end matches the rest of the pipe. An unterminated rest counts as a line.
func (l *lines) end() {
	if len(l.buf) > 0 {
		l.flushBytes(len(l.buf))
	}
	l.p.Flush(l.s.stream)
	l.s.advanceWatermark(l.p)
}

// handleIdle matches an incomplete line if the pipe has no new data. When the rest of the line
// arrives, the whole line is matched. An open pipe without new data counts as completely read.
func (l *lines) handleIdle() {
	if l.s.cfg.Clock().Sub(l.lastReadAt) >= idleAfter {
		if n := l.droppedBytes + int64(len(l.buf)); n != l.matchedLength {
			l.matchedLength = n
			if n > 0 {
				l.p.Scan(l.s.stream, l.buf, func() {})
			}
		}
		l.p.Flush(l.s.stream)
	}
	l.s.advanceWatermark(l.p)
}

func (l *lines) addBytes(b []byte) {
	for len(b) > 0 {
		if l.droppedBytes > 0 {
			nl := bytes.IndexByte(b, '\n')
			if nl < 0 {
				l.droppedBytes += int64(len(b))
				return
			}
			l.droppedBytes += int64(nl)
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
			l.buf, l.droppedBytes = l.buf[:keepSize], blockSize-keepSize
		}
	}
}

func (l *lines) flushBytes(n int) {
	lost := l.droppedBytes
	l.droppedBytes, l.matchedLength = 0, 0
	l.p.Scan(l.s.stream, l.buf[:n], func() {
		c := l.s.stream.Counters()
		now := l.s.cfg.Clock()
		l.s.updateStatus(func(st *sources.Status) {
			st.Counters = c
			st.LostBytes["long_line"] += lost
			st.Streams = []sources.StreamStatus{{
				Labels: l.s.stream.Labels(), Offset: c.Bytes, Size: c.Bytes, Lines: c.Lines, LastRead: now,
			}}
		})
	})
	l.buf = append(l.buf[:0], l.buf[n:]...)
}
