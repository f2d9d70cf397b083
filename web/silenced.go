package web

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/alertmanager/pkg/labels"
	"golang.org/x/sync/singleflight"

	"crowsnest/episodes"
)

const (
	silencesFresh = 15 * time.Second       // age of the silences after which they are read again
	silencesOld   = time.Minute            // age of the silences after which a page waits for the new ones
	silencesWait  = 400 * time.Millisecond // maximum time that a page waits
	silencesTime  = 5 * time.Second        // time limit for the answer of Alertmanager
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

// silences caches the active silences. They are read only while people use the pages, and at most once every
// silencesFresh. It is safe for concurrent use.
type silences struct {
	read    func(context.Context) []SilenceList // nil if there is no Alertmanager whose silences can be read
	reading singleflight.Group
	newest  atomic.Pointer[readSilences]
}

// readSilences contains silences and the time when they were read. The time is zero if they were never read.
type readSilences struct {
	lists []SilenceList
	at    time.Time
}

func newSilences(read func(context.Context) []SilenceList) *silences {
	c := &silences{read: read}
	c.newest.Store(&readSilences{lists: []SilenceList{{Error: "Alertmanager has not answered yet"}}})
	return c
}

// newestLists returns the newest known lists. It waits a moment if none are known.
func (c *silences) newestLists(now func() time.Time) []SilenceList {
	if c.read == nil {
		return nil
	}
	if age := now().Sub(c.newest.Load().at); age >= silencesFresh || age < 0 {
		renewed := c.reading.DoChan("", func() (any, error) {
			ctx, cancel := context.WithTimeout(context.Background(), silencesTime)
			defer cancel()
			c.newest.Store(&readSilences{c.read(ctx), now()})
			return nil, nil
		})
		if age >= silencesOld || age < 0 {
			select {
			case <-renewed:
			case <-time.After(silencesWait):
			}
		}
	}
	return c.newest.Load().lists
}

// findSilencing returns a function that returns the silence of an alert. The function returns nil unless every cluster
// of Alertmanagers silences the alert. problem is the reason why silences are not known, or "".
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

// findSilence returns the longest silence of the alert that was sent with the labels sent. It returns nil if the alert
// is not silenced.
func (l SilenceList) findSilence(sent map[string]string) (out *Silencing) {
	for i := range l.Silences {
		if x := &l.Silences[i]; satisfiesMatchers(x.Matchers, sent) && (out == nil || x.End.After(out.Until)) {
			out = &Silencing{x.End, tameText(x.Author), tameText(x.Comment)}
		}
	}
	return out
}

// Text returns a sentence about who silenced the alert, until when and why.
func (x *Silencing) Text() string {
	return fmt.Sprintf("Silenced until %s by %s: %s", formatTime(x.Until), x.Author, x.Comment)
}
