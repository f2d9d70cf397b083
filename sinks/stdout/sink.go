// Package stdout writes alerts to a stream, either as one JSON object per line for machines or
// in a form for people. It writes when an episode fires and when it ends, but not in between.
package stdout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"crowsnest/sinks"
	"crowsnest/sinks/internal/delivery"
)

// Formats of an alert.
const (
	formatJSON = "json"
	formatText = "text"
)

const (
	retryAfter = 3 * time.Second // longest delay before the next try after an error of the writer
	batch      = 64
)

// reasonWrite is the reason why alerts are not written, in addition to delivery.ReasonEvicted.
const reasonWrite = "write"

// Config sets how alerts are written.
type Config struct {
	// Name is the name of the sink, unique among the sinks. Default: the kind.
	Name string `yaml:"name" bounds:"0,4096"`
	// Format is the format of an alert, json (the default) or text.
	Format string `yaml:"format" bounds:"0,4096"`
	// ExternalLabels are labels that are added to every alert that lacks them, and are part of the alert's identity.
	ExternalLabels map[string]string `yaml:"external_labels" bounds:"0,64,4096"`
	// Color enables colours in the text format. The caller knows whether the writer is a terminal, and checks NO_COLOR.
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
	*delivery.Loop[Record]

	receiver *receiver
}

// New returns a Sink that writes to w. Only one goroutine writes, while Run runs. New starts nothing and does no I/O.
func New(cfg Config, w io.Writer) (*Sink, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Name = cmp.Or(cfg.Name, "stdout")
	if cfg.StateChanged == nil {
		cfg.StateChanged = func(error) {}
	}
	r := &receiver{cfg: cfg, w: w}
	return &Sink{delivery.New(delivery.Config{
		Name: cfg.Name, Endpoint: "stdout", MaxItems: batch, MaxBytes: math.MaxInt, FirstRetry: retryAfter, MaxRetry: retryAfter,
		State:   sinks.StateConfig{ResolvedFor: sinks.DefaultResolvedFor},
		Options: delivery.Options{MaxKeys: cfg.MaxKeys, Now: cfg.Now},
	}, r), r}, nil
}

// Run writes until ctx ends. Then it writes the rest, which takes at most delivery.Drain. If the writer blocks for
// longer, Run returns an error and abandons one goroutine in the call, which cannot be interrupted.
func (s *Sink) Run(ctx context.Context) error {
	if err := s.Loop.Run(ctx); err != nil || !s.receiver.blocked {
		return err
	}
	return fmt.Errorf("sink %s: the writer blocks, %d alerts are not written", s.Name(), s.Status()[0].Pending)
}

// Status returns the state of the writer. The writer is up unless the last alert could not be written.
func (s *Sink) Status() []sinks.EndpointStatus {
	out := s.Loop.Status()
	st := &out[0]
	st.Up = st.Error == ""
	st.Failed = map[string]int64{reasonWrite: st.Failed[reasonWrite], delivery.ReasonEvicted: st.Failed[delivery.ReasonEvicted]}
	return out
}

type receiver struct {
	cfg     Config
	w       io.Writer
	torn    bool // whether a record was written only in part
	failing bool // whether the last record could not be written
	blocked bool // whether a write did not end in time
}

func (r *receiver) Encode(m sinks.Message, now time.Time) (Record, int, error) {
	out := newRecord(m.Episode, m.Resolved, now)
	for name, value := range r.cfg.ExternalLabels {
		if _, has := out.Labels[name]; !has {
			out.Labels[name] = value
		}
	}
	return out, 0, nil
}

func (r *receiver) Deliver(ctx context.Context, records []Record) delivery.Answer {
	for i, record := range records {
		done := make(chan error, 1)
		go func() { done <- r.write(record) }()
		var err error
		select {
		case err = <-done:
		case <-ctx.Done():
			r.blocked = true
			return delivery.Answer{Reason: reasonWrite, Err: errors.New("the writer blocks"), Taken: i}
		}
		if failing := err != nil; failing != r.failing {
			r.failing = failing
			r.cfg.StateChanged(err)
		}
		if err != nil {
			return delivery.Answer{Reason: reasonWrite, Err: err, Taken: i}
		}
	}
	return delivery.Answer{}
}

func (r *receiver) write(record Record) error {
	var b []byte
	var err error
	if r.cfg.Format == formatText {
		b = record.Text(r.cfg.Color)
	} else if b, err = record.JSON(); err != nil {
		return err
	}
	if r.torn {
		b = append([]byte{'\n'}, b...)
	}
	n, err := r.w.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		r.torn = r.torn || n > 0
		return fmt.Errorf("write: %w", err)
	}
	r.torn = false
	return nil
}

func (r *receiver) Close() {}
