package web

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/alertmanager/pkg/labels"

	"crowsnest/episodes"
)

const (
	silencesFresh = 15 * time.Second       // age from which on silences are read again
	silencesOld   = time.Minute            // age from which on a page waits for that
	silencesWait  = 400 * time.Millisecond // how long it waits
	silencesTime  = 5 * time.Second        // how long Alertmanager may take
)

// SilenceList is the silences in force at one cluster of Alertmanagers.
type SilenceList struct {
	Receiver string
	Silences []ActiveSilence
	Error    string // why they are not known; empty if they are
}

// ActiveSilence is one of them. It silences the alerts that all of its matchers match.
type ActiveSilence struct {
	ID              string
	Matchers        []*labels.Matcher
	End             time.Time
	Author, Comment string
}

// Silencing is the silence of one alert.
type Silencing struct {
	Until           time.Time
	Author, Comment string
}

// silences remembers the silences in force. They are read while somebody looks at the pages, and
// at most every silencesFresh. Safe for concurrent use.
type silences struct {
	read func(context.Context) []SilenceList // nil if nothing can be silenced

	mu      sync.Mutex
	lists   []SilenceList
	at      time.Time     // when they were read; zero if never
	running chan struct{} // closed when they have been read; nil if nobody reads them
}

// get returns the newest lists that are known. It waits a moment for the first ones.
func (c *silences) get(now func() time.Time) []SilenceList {
	if c.read == nil {
		return nil
	}
	c.mu.Lock()
	age := now().Sub(c.at)
	if c.running == nil && (age >= silencesFresh || age < 0) {
		c.running = make(chan struct{})
		go c.renew(now, c.running)
	}
	running := c.running
	c.mu.Unlock()
	if running != nil && (age >= silencesOld || age < 0) {
		select {
		case <-running:
		case <-time.After(silencesWait):
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return []SilenceList{{Error: "Alertmanager has not answered yet"}}
	}
	return c.lists
}

func (c *silences) renew(now func() time.Time, done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), silencesTime)
	defer cancel()
	lists := c.read(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists, c.at, c.running = lists, now(), nil
	close(done)
}

// silencing returns a function that tells the silence of an open alert, nil if it has none. An
// alert is silenced if every cluster of Alertmanagers silences it. problem says why that is not
// known.
func (s *Server) silencing() (of func(*episodes.Episode) *Silencing, problem string) {
	lists := s.silences.get(s.opt.Now)
	none := func(*episodes.Episode) *Silencing { return nil }
	some := false
	for _, l := range lists {
		if l.Error != "" {
			return none, strings.TrimPrefix(l.Receiver+": ", ": ") + l.Error
		}
		some = some || len(l.Silences) > 0
	}
	if !some {
		return none, ""
	}
	added := external(s.view)
	return func(e *episodes.Episode) *Silencing {
		if !open(*e) || e.Silent {
			return nil
		}
		sent := withLabels(e.Labels, added)
		var out *Silencing
		for _, l := range lists {
			found := l.silence(sent)
			if found == nil {
				return nil
			}
			if out == nil || found.Until.Before(out.Until) {
				out = found
			}
		}
		return out
	}, ""
}

// silence returns the silence of an alert that lasts longest; nil if it has none.
func (l SilenceList) silence(sent map[string]string) (out *Silencing) {
	for i := range l.Silences {
		if x := &l.Silences[i]; satisfies(x.Matchers, sent) && (out == nil || x.End.After(out.Until)) {
			out = &Silencing{x.End, tame(x.Author), tame(x.Comment)}
		}
	}
	return out
}

// Text says for people who silenced an alert, until when and why.
func (x *Silencing) Text() string {
	return fmt.Sprintf("Silenced until %s by %s: %s", when(x.Until), x.Author, x.Comment)
}
