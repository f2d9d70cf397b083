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

// streamState is the part of a follower that other goroutines read, together with their requests
// to the follower. It is safe for concurrent use.
type streamState struct {
	turn      atomic.Int32 // state of the follower in the queue
	begun     atomic.Bool  // whether the stream had its first turn, from which on no line is missed
	hinted    atomic.Bool  // whether inotify has reported a possible change in the directory
	watched   atomic.Bool  // whether inotify reports changes of the directory
	unlisted  atomic.Bool  // whether the last search no longer found the stream
	closeIdle atomic.Bool  // whether the current file must be closed when nothing more is written to it

	folder string // path of the directory of the stream

	mu       sync.Mutex
	saved    *position.Stream // saved position; nil if nothing was read yet
	bound    time.Time        // time up to which the stream was read
	lineTime time.Time        // time of the newest line that was read
	isEnded  bool             // whether the stream has no files left
	blocked  bool             // whether the newest file must not be read, so that later lines are missed
	pinned   bool             // whether the follower has open files
	view     sources.StreamStatus
	named    string // name of the file that view.Path refers to
	counters matcher.Counters
	refused  map[string]sources.UnreadLog // files that must not be read, such as links; the key is the name
	stalled  struct {                     // why and since when the stream cannot be read; zero if it can be read
		since time.Time
		why   string
	}
}

func (p *streamState) update(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// advanceTo records that every line from before t was read, unless the newest file must not be
// read.
func (p *streamState) advanceTo(t time.Time) {
	p.update(func() {
		if !p.blocked {
			p.bound = times.Max(t, p.bound)
		}
	})
}

// markEnded marks the file of the position as read to its end. The mark survives restarts.
func (p *streamState) markEnded() {
	p.update(func() {
		if s := p.saved; s != nil {
			p.saved = &position.Stream{Point: s.Point, RotatedPoint: s.RotatedPoint, Ended: true, ReadFiles: s.ReadFiles}
		}
	})
}

// setRefused replaces the refused files, and returns the number of new ones.
func (p *streamState) setRefused(now map[string]sources.UnreadLog) (fresh int) {
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

func (p *streamState) recordStall(now time.Time, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled.why = why
	if p.stalled.since.IsZero() {
		p.stalled.since = now
	}
}

func (p *streamState) readUpTo() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bound
}

func (p *streamState) listUnread() []sources.UnreadLog {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := slices.Collect(maps.Values(p.refused))
	if !p.stalled.since.IsZero() {
		out = append(out, sources.UnreadLog{Path: cmp.Or(p.view.Path, p.folder), Reason: p.stalled.why, Since: p.stalled.since, Holds: true})
	}
	return out
}
