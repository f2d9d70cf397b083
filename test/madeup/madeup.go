// Package madeup has a kind of source and a kind of sink that exist for tests: each is
// one component.Kind beside its code, as in a new package of sources or sinks.
package madeup

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"crowsnest/daemon/component"
	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sinks"
	"crowsnest/sources"
)

// Tape describes sources that read the lines of a file once.
func Tape() component.Kind {
	return component.Kind{
		Key: "tape", Help: "The lines of a file, read once.", Settings: TapeConfig{},
		Losses: component.Losses{"torn": {Severity: "warning", What: "the tape is torn", Fix: "Glue it."}},
		Streams: func(p component.Part) []component.Labels {
			return []component.Labels{{Fixed: p.Settings.(*TapeConfig).Labels}}
		},
		Sources: func(p component.Part, o component.SourceOptions) []sources.Source {
			c := *p.Settings.(*TapeConfig)
			c.Name = p.Name
			return []sources.Source{&tape{cfg: c, now: o.Clock}}
		},
	}
}

// TapeConfig are the settings of a tape.
type TapeConfig struct {
	// Name is the source's name.
	Name string `yaml:"name" bounds:"0,4096"`
	// LinesFile is the file with the lines.
	LinesFile string `yaml:"lines_file" bounds:"0,4096" strict:"required"`
	// Labels are the labels of the lines.
	Labels map[string]string `yaml:"labels" bounds:"0,64,4096"`
}

// Validate refuses labels that tapes cannot have.
func (c *TapeConfig) Validate() error {
	if _, ok := c.Labels["side"]; ok {
		return errors.New("labels: a tape has one side; remove the label")
	}
	return nil
}

type tape struct {
	cfg  TapeConfig
	now  func() time.Time
	read atomic.Bool
}

func (t *tape) Name() string                    { return t.cfg.Name }
func (t *tape) Info() sources.Info              { return sources.Info{} }
func (t *tape) Serves(from rules.Selector) bool { return from.Matches(t.cfg.Labels, false) }
func (t *tape) Positions() json.RawMessage      { return nil }
func (t *tape) Restore(json.RawMessage) error   { return nil }

// Run reads the file and waits for the end of ctx.
func (t *tape) Run(ctx context.Context, p sources.Pipeline) error {
	data, err := os.ReadFile(t.cfg.LinesFile)
	if err != nil {
		return err
	}
	p.Scan(matcher.NewStream(t.cfg.Labels, matcher.StreamOptions{}), data, func() { t.read.Store(true) })
	<-ctx.Done()
	return nil
}

// Status reports a loss once the file is read.
func (t *tape) Status() sources.Status {
	s := sources.Status{Name: t.cfg.Name, Up: t.read.Load(), Opened: t.read.Load(), Watermark: t.now()}
	if s.Up {
		s.Losses = map[string]sources.Loss{"torn": {Count: 1, Time: t.now(), Path: t.cfg.LinesFile}}
	}
	return s
}

// Bell describes sinks that ring once for each firing alert.
func Bell() component.Kind {
	return component.Kind{
		Key: "bell", Help: "One ring for each alert.", Settings: BellConfig{}, Single: true,
		Sink: func(p component.Part, o component.SinkOptions) (sinks.Sink, error) {
			c := *p.Settings.(*BellConfig)
			c.Name = p.Name
			o.Into(new(map[string]string), &c.ExternalURL)
			return &bell{cfg: c}, nil
		},
	}
}

// BellConfig are the settings of a bell.
type BellConfig struct {
	// Name is the sink's name.
	Name string `yaml:"name" bounds:"0,4096"`
	// Volume is its volume; Name does not matter.
	Volume int `yaml:"volume" bounds:"1,10"`
	// ExternalURL is engraved on it.
	ExternalURL string `yaml:"external_url" bounds:"0,4096"`
}

type bell struct {
	cfg   BellConfig
	rings atomic.Int64
}

func (b *bell) Name() string { return b.cfg.Name }

func (b *bell) Notify(eps []episodes.Episode) {
	for _, e := range eps {
		if e.State == episodes.StateFiring {
			b.rings.Add(1)
		}
	}
}

func (b *bell) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (b *bell) Status() []sinks.EndpointStatus {
	return []sinks.EndpointStatus{{Sink: b.cfg.Name, Endpoint: b.cfg.ExternalURL, Up: true, Sent: b.rings.Load()}}
}
