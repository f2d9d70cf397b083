package tail

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"crowsnest/internal/times"
	"crowsnest/matcher"
	"crowsnest/sources"
	"crowsnest/sources/internal/position"
)

// published is the part of a follower that other goroutines read, and their requests
// to it. Safe for concurrent use.
type published struct {
	begun     atomic.Bool // reports whether the log had its first turn, after which no line is missed
	hinted    atomic.Bool // something may have happened in the directory
	watched   atomic.Bool // inotify reports changes of the directory
	unlisted  atomic.Bool // the finder no longer sees the stream
	closeIdle atomic.Bool // close the file when it is idle

	folder string // path of the directory of the stream

	mu       sync.Mutex
	saved    *position.Stream // nil if nothing was taken yet
	bound    time.Time        // watermark of the stream
	lineTime time.Time        // time of the newest line that was read
	over     bool             // there are no files left
	blocked  bool             // the newest file is refused: what follows is not read
	pinned   bool             // files are open
	view     sources.StreamStatus
	named    string // the file that view.Path is of
	counters matcher.Counters
	refused  map[string]sources.Unread // files that are refused, by name
	stalled  struct {                  // zero if it is read
		since time.Time
		why   string
	}
}

func (p *published) update(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// advanceTo records that everything written by t was read, unless the newest file is refused.
func (p *published) advanceTo(t time.Time) {
	p.update(func() {
		if !p.blocked {
			p.bound = times.Later(t, p.bound)
		}
	})
}

// clampBound limits the stream's watermark to the clock, which was set back: how far
// this stream lags is not known until it is read to its end.
func (p *published) clampBound(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ahead(p.bound, now) {
		p.bound = time.Time{}
	}
}

// progress advances the watermark by the times of the lines while a backlog is read:
// the lines of a file are in order within the lateness that rules allow.
func (p *published) progress() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.lineTime.IsZero() && p.lineTime.Before(p.view.LastRead) {
		p.bound = times.Later(p.lineTime, p.bound)
	}
}

// reached records the time of the newest line that was read.
func (p *published) reached(t, now time.Time) {
	p.update(func() { p.lineTime, p.view.LastRead = t, now })
}

// save replaces the position by an equivalent one.
func (p *published) save(pos position.Stream) { p.update(func() { p.saved = &pos }) }

// end marks the file of the position as read to its end, also for restarts.
func (p *published) end() {
	if s := p.saved; s != nil {
		p.save(position.Stream{Point: s.Point, Old: s.Old, Ended: true, Done: s.Done})
	}
}

func (p *published) setOver(over bool) { p.update(func() { p.over = over }) }

// setRefused replaces the files that are refused, and returns how many are new.
func (p *published) setRefused(now map[string]sources.Unread) (fresh int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, u := range now {
		old, known := p.refused[name]
		if !known {
			fresh++
			continue
		}
		u.Since = old.Since
		now[name] = u
	}
	p.refused = now
	return fresh
}

// stall records that the stream is not read, since when and why.
func (p *published) stall(now time.Time, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled.why = why
	if p.stalled.since.IsZero() {
		p.stalled.since = now
	}
}

// final returns the state to keep of a follower with nothing left to read.
func (p *published) final() (over bool, n matcher.Counters, saved *position.Stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if saved = p.saved; saved != nil && p.over && !saved.Ended {
		saved = &position.Stream{Point: saved.Point, Ended: true} // what was lost of it is counted
	}
	return p.over, p.counters, saved
}

// readingState says how a stream is read.
type readingState int

const (
	reading readingState = iota
	behind               // the log was not read for a while, and is behind the watermark
	blocked              // its newest file is refused
	stalled              // the log cannot be read
)

// readState returns the time up to which the stream was read, and how it is read, if watermark
// is that of the source.
func (p *published) readState(watermark time.Time) (upTo time.Time, state readingState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.stalled.since.IsZero():
		return p.bound, stalled
	case p.blocked:
		return p.bound, blocked
	case p.bound.Before(watermark):
		return p.bound, behind
	}
	return p.bound, reading
}

func (p *published) readUpTo() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bound
}

// knownLabels returns the labels of the stream, nil before it has a file.
func (p *published) knownLabels() matcher.Labels {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.view.Labels
}

// unread lists what of the stream exists and is not read.
func (p *published) unread() []sources.Unread {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := slices.Collect(maps.Values(p.refused))
	if !p.stalled.since.IsZero() {
		out = append(out, sources.Unread{Path: cmp.Or(p.view.Path, p.folder), Why: p.stalled.why, Since: p.stalled.since, Holds: true})
	}
	return out
}
