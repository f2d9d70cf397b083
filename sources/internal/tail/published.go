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

// published is the part of a follower that other goroutines read, together with their requests
// to the follower. It is safe for concurrent use.
type published struct {
	begun     atomic.Bool // whether the stream had its first turn, from which on no line is missed
	hinted    atomic.Bool // whether a change in the directory is possible, according to inotify
	watched   atomic.Bool // whether inotify reports changes of the directory
	unlisted  atomic.Bool // whether the last search no longer found the stream
	closeIdle atomic.Bool // whether the current file must be closed when it is idle

	folder string // path of the directory of the stream

	mu       sync.Mutex
	saved    *position.Stream // saved position; nil if nothing was read yet
	bound    time.Time        // time up to which the stream was read
	lineTime time.Time        // time of the newest line that was read
	isEnded  bool             // whether the stream has no files left
	blocked  bool             // whether the newest file may not be read, so that later lines are missed
	pinned   bool             // whether the follower has open files
	view     sources.StreamStatus
	named    string // name of the file that view.Path refers to
	counters matcher.Counters
	refused  map[string]sources.Unread // files that may not be read, by name
	stalled  struct {                  // why and since when the stream cannot be read; zero if it can
		since time.Time
		why   string
	}
}

func (p *published) update(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// advanceTo records that every line from before t was read, unless the newest file may not be
// read.
func (p *published) advanceTo(t time.Time) {
	p.update(func() {
		if !p.blocked {
			p.bound = times.Later(t, p.bound)
		}
	})
}

// clampBound resets the stream's watermark if it is in the future, which happens if the clock
// was set back. It is then unknown how far the stream lags, until it is read to its end.
func (p *published) clampBound(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if isAhead(p.bound, now) {
		p.bound = time.Time{}
	}
}

// advanceByLines advances the watermark to the time of the newest line while a backlog is read.
// The lines of a file are sufficiently in order, because rules allow for late lines.
func (p *published) advanceByLines() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.lineTime.IsZero() && p.lineTime.Before(p.view.LastRead) {
		p.bound = times.Later(p.lineTime, p.bound)
	}
}

// recordLineTime records the time of the newest line that was read.
func (p *published) recordLineTime(t, now time.Time) {
	p.update(func() { p.lineTime, p.view.LastRead = t, now })
}

// replacePosition replaces the position by one that means the same.
func (p *published) replacePosition(pos position.Stream) { p.update(func() { p.saved = &pos }) }

// markEnded marks the file of the position as read to its end. The mark survives restarts.
func (p *published) markEnded() {
	if s := p.saved; s != nil {
		p.replacePosition(position.Stream{Point: s.Point, Old: s.Old, Ended: true, Done: s.Done})
	}
}

func (p *published) setOver(over bool) { p.update(func() { p.isEnded = over }) }

// setRefused replaces the refused files, and returns the number of new ones.
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

// recordStall records why the stream cannot be read, and since when.
func (p *published) recordStall(now time.Time, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled.why = why
	if p.stalled.since.IsZero() {
		p.stalled.since = now
	}
}

// finalState returns the state to keep when the follower is removed. over reports whether it
// has nothing left to read.
func (p *published) finalState() (over bool, n matcher.Counters, saved *position.Stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if saved = p.saved; saved != nil && p.isEnded && !saved.Ended {
		saved = &position.Stream{Point: saved.Point, Ended: true} // its unread part was already counted as lost
	}
	return p.isEnded, p.counters, saved
}

// readingState is the state of a stream for the watermark of the source.
type readingState int

const (
	reading readingState = iota
	behind               // the stream was unreadable for a while, and its lines are still older than the watermark
	blocked              // the newest file may not be read
	stalled              // the stream cannot be read
)

// readState returns the time up to which the stream was read, and how it is read. watermark is
// the watermark of the source.
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

// knownLabels returns the labels of the stream, or nil before a file is known.
func (p *published) knownLabels() matcher.Labels {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.view.Labels
}

// listUnread lists the files of the stream that exist but are not read.
func (p *published) listUnread() []sources.Unread {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := slices.Collect(maps.Values(p.refused))
	if !p.stalled.since.IsZero() {
		out = append(out, sources.Unread{Path: cmp.Or(p.view.Path, p.folder), Why: p.stalled.why, Since: p.stalled.since, Holds: true})
	}
	return out
}
