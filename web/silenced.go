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
	silencesFresh = 15 * time.Second       // age at which silences are read again
	silencesOld   = time.Minute            // age at which a page waits until silences are read again
	silencesWait  = 400 * time.Millisecond // longest time that a page waits
	silencesTime  = 5 * time.Second        // longest time that Alertmanager may take
)

// SilenceList contains the active silences of one cluster of Alertmanagers.
type SilenceList struct {
	Receiver string
	Silences []ActiveSilence
	Error    string // reason why the silences are not known; empty if they are
}

// ActiveSilence is an active silence. It silences the alerts that all its matchers match.
type ActiveSilence struct {
	ID              string
	Matchers        []*labels.Matcher
	End             time.Time
	Author, Comment string
}

// Silencing describes the silence of one alert.
type Silencing struct {
	Until           time.Time
	Author, Comment string
}

// silences caches the active silences. They are read while somebody looks at the pages, at most
// once every silencesFresh. It is safe for concurrent use.
type silences struct {
	read func(context.Context) []SilenceList // nil if nothing can be silenced

	mu      sync.Mutex
	lists   []SilenceList
	at      time.Time     // time when they were read; zero if never
	running chan struct{} // closed once they have been read; nil if they are not being read
}

// newestLists returns the newest lists that are known. It waits a moment if none are known.
func (c *silences) newestLists(now func() time.Time) []SilenceList {
	if c.read == nil {
		return nil
	}
	c.mu.Lock()
	age := now().Sub(c.at)
	if c.running == nil && (age >= silencesFresh || age < 0) {
		c.running = make(chan struct{})
		go c.renewLists(now, c.running)
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

func (c *silences) renewLists(now func() time.Time, done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), silencesTime)
	defer cancel()
	lists := c.read(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists, c.at, c.running = lists, now(), nil
	close(done)
}

// findSilencing returns a function that returns the silence of an open alert, or nil if the
// alert has none. An alert counts as silenced if every cluster of Alertmanagers silences it.
// problem says why silences are not known.
func (s *Server) findSilencing() (of func(*episodes.Episode) *Silencing, problem string) {
	lists := s.silences.newestLists(s.opt.Now)
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
	added := externalLabels(s.view)
	return func(e *episodes.Episode) *Silencing {
		if !isEpisodeOpen(*e) || e.Silent {
			return nil
		}
		sent := withLabels(e.Labels, added)
		var out *Silencing
		for _, l := range lists {
			found := l.findSilence(sent)
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

// findSilence returns the longest-lasting silence of the alert with the labels sent, or nil if
// it has none.
func (l SilenceList) findSilence(sent map[string]string) (out *Silencing) {
	for i := range l.Silences {
		if x := &l.Silences[i]; satisfiesMatchers(x.Matchers, sent) && (out == nil || x.End.After(out.Until)) {
			out = &Silencing{x.End, tameText(x.Author), tameText(x.Comment)}
		}
	}
	return out
}

// Text says for people who silenced the alert, until when and why.
func (x *Silencing) Text() string {
	return fmt.Sprintf("Silenced until %s by %s: %s", formatTime(x.Until), x.Author, x.Comment)
}
