// Package stdout writes alerts to a stream, either as one JSON object per line for machines or
// in a form for people. It writes when an episode fires and when it ends, but not in between.
package stdout

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"crowsnest/episodes"
	"crowsnest/sinks"
)

// Formats of an alert.
const (
	formatJSON = "json"
	formatText = "text"
)

const (
	drain      = 2 * time.Second // time for which Run waits for a writer that blocks
	retryAfter = 3 * time.Second // delay before the next try after an error of the writer
	batch      = 64
)

// Reasons why alerts are not written.
const (
	reasonWrite   = "write"
	reasonEvicted = "evicted"
)

// Config sets how alerts are written.
type Config struct {
	// Name is the name of the sink, unique among the sinks. Default: the kind.
	Name string `yaml:"name" bounds:"0,4096"`
	// Format is the format of an alert, json (the default) or text.
	Format string `yaml:"format" bounds:"0,4096"`
	// ExternalLabels are added to every alert that lacks them. They are part of its identity.
	ExternalLabels map[string]string `yaml:"external_labels" bounds:"0,64,4096"`
	// Color enables colours in the text format. The caller knows whether the writer is a
	// terminal, and checks NO_COLOR.
	Color bool `yaml:"-"`
	// Now is the clock; nil means time.Now.
	Now func() time.Time `yaml:"-"`
	// StateChanged is called with the error when writing starts to fail, and with nil when it
	// works again. It may be nil.
	StateChanged func(error) `yaml:"-"`
	// MaxKeys is the largest number of alerts in the state. Zero means sinks.DefaultMaxKeys.
	MaxKeys int `yaml:"-"`
}

// Validate returns the first problem of the configuration.
func (c Config) Validate() error {
	if c.Format != "" && c.Format != formatJSON && c.Format != formatText {
		return fmt.Errorf("format: %q is not known; use json or text", c.Format)
	}
	return nil
}

// Sink writes alerts. It is safe for concurrent use.
type Sink struct {
	*sinks.Deliveries // times at which alerts were written, or reasons why they were not

	cfg  Config
	w    io.Writer
	wake chan struct{} // signals that there may be messages to write
	torn bool          // whether a record was written only in part; used only by the writing goroutine

	mu      sync.Mutex
	state   *sinks.State
	up      bool
	lastErr string
	sent    int64
	failed  int64
}

// New returns a Sink that writes to w. Only one goroutine writes, while Run runs. New starts
// nothing and does no I/O.
func New(cfg Config, w io.Writer) (*Sink, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Name = cmp.Or(cfg.Name, "stdout")
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.StateChanged == nil {
		cfg.StateChanged = func(error) {}
	}
	return &Sink{
		cfg: cfg, w: w, wake: make(chan struct{}, 1), up: true, Deliveries: sinks.NewDeliveries(),
		state: sinks.NewState(sinks.StateConfig{ResolvedFor: sinks.DefaultResolvedFor, MaxKeys: cfg.MaxKeys}),
	}, nil
}

// Name returns the configured name.
func (s *Sink) Name() string { return s.cfg.Name }

// Notify accepts changed episodes. It never blocks, even if the writer does. The state keeps
// the newest message of each episode until it can be written.
func (s *Sink) Notify(eps []episodes.Episode) {
	s.mu.Lock()
	s.state.Notify(eps, s.cfg.Now())
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run writes until ctx ends. Then it writes the rest, which takes at most 2 s. If the writer
// blocks for longer, Run returns an error and abandons one goroutine in the call, which cannot
// be interrupted.
func (s *Sink) Run(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.write(ctx)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	t := time.NewTimer(drain)
	defer t.Stop()
	select {
	case <-done:
		return nil
	case <-t.C:
		return fmt.Errorf("sink %s: the writer blocks, %d alerts are not written", s.cfg.Name, s.Status()[0].Pending)
	}
}

func (s *Sink) write(ctx context.Context) {
	retry := time.NewTimer(0)
	defer retry.Stop()
	wasBroken := false
	for {
		wake := s.wake
		retry.Stop()
		err := s.writeDue() // writeDue counts the error
		if err != nil {
			wake = nil
			retry.Reset(retryAfter)
		}
		if broken := err != nil; broken != wasBroken {
			wasBroken = broken
			s.cfg.StateChanged(err)
		}
		select {
		case <-ctx.Done():
			_ = s.writeDue() // writeDue counts the error
			return
		case <-wake:
		case <-retry.C:
		}
	}
}

func (s *Sink) writeDue() error {
	for {
		now := s.cfg.Now()
		s.mu.Lock()
		due := s.state.Due(now, batch)
		s.mu.Unlock()
		if len(due) == 0 {
			return nil
		}
		for _, m := range due {
			err := s.writeOne(m, now)
			s.recordWrite(m, err, now)
			if err != nil {
				return err
			}
		}
	}
}

func (s *Sink) recordWrite(m sinks.Message, err error, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := sinks.Delivery{Endpoint: "stdout", Time: now}
	if err != nil {
		d.Error = err.Error()
		s.failed++
	} else {
		s.sent++
		s.state.Accepted([]sinks.Message{m}, now)
	}
	s.up, s.lastErr = err == nil, d.Error
	s.Record([]sinks.Message{m}, d)
}

func (s *Sink) writeOne(m sinks.Message, now time.Time) error {
	r := newRecord(m.Episode, m.Resolved, now)
	for name, value := range s.cfg.ExternalLabels {
		if _, has := r.Labels[name]; !has {
			r.Labels[name] = value
		}
	}
	var b []byte
	var err error
	if s.cfg.Format == formatText {
		b = r.Text(s.cfg.Color)
	} else if b, err = r.JSON(); err != nil {
		return err
	}
	if s.torn {
		b = append([]byte{'\n'}, b...)
	}
	n, err := s.w.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		s.torn = s.torn || n > 0
		return fmt.Errorf("write: %w", err)
	}
	s.torn = false
	return nil
}

// Status returns the state of the writer.
func (s *Sink) Status() []sinks.EndpointStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.state.Stats()
	return []sinks.EndpointStatus{{
		Sink: s.cfg.Name, Endpoint: "stdout", Up: s.up, Error: s.lastErr, Sent: s.sent,
		Failed: map[string]int64{reasonWrite: s.failed, reasonEvicted: st.Evicted}, Pending: st.Pending,
	}}
}

// Export returns which messages were written, so that nothing is written twice after a restart.
func (s *Sink) Export() ([]byte, error) {
	s.mu.Lock()
	saved := s.state.Export(s.cfg.Now())
	s.mu.Unlock()
	b, err := json.Marshal(saved)
	if err != nil {
		return nil, fmt.Errorf("save sink %s: %w", s.cfg.Name, err)
	}
	return b, nil
}

// Import sets the state that Export returned. It must be called before the first Notify.
func (s *Sink) Import(data []byte) error {
	var in sinks.SavedState
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("read the saved state of sink %s: %w", s.cfg.Name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Import(in, s.cfg.Now())
	return nil
}
