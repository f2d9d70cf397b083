package tail

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"crowsnest/internal/times"
	"crowsnest/matcher"
	"crowsnest/sources"
	"crowsnest/sources/internal/position"
)

const (
	maxStreams = position.MaxStreams // largest number of streams that are read
	maxUnread  = 100                 // largest number of unread logs that are listed
)

// Positions returns the state from which Restore continues after the ingested lines. The caller
// holds the checkpoint lock, so no line is ingested during the call.
func (t *Tailer) Positions() json.RawMessage {
	var s sources.Status
	t.fillStatus(&s)
	t.mu.Lock()
	defer t.mu.Unlock()
	set := position.Set{At: t.readUpTo(), Losses: s.Losses, Roots: t.roots}
	return set.Encode(t.savedStreams, len(t.followers)+len(t.restored))
}

// savedStreams yields the position of each stream. The caller holds mu.
func (t *Tailer) savedStreams(yield func(key string, s *position.Stream) bool) {
	for key, c := range t.followers {
		c.mu.Lock()
		saved := c.saved // the value is only replaced, never changed
		c.mu.Unlock()
		if !yield(key, saved) {
			return
		}
	}
	for key, r := range t.restored {
		if !yield(key, r.pos) {
			return
		}
	}
}

// readUpTo returns the time from which on a stream without a saved position is read.
func (t *Tailer) readUpTo() time.Time {
	switch {
	case !t.watermark.IsZero():
		return t.allReadTo().UTC()
	case t.state:
		return t.saved.UTC()
	}
	return t.cfg.Clock().UTC()
}

// allReadTo returns the watermark, or an earlier time if a stream without a position cannot be
// read, and was read only up to that time. The caller holds mu.
func (t *Tailer) allReadTo() time.Time {
	at := t.watermark
	earliest := func(upTo time.Time) {
		if upTo.IsZero() {
			upTo = t.began.Add(-max(t.cfg.LookBack, 0))
		}
		at = times.Earlier(at, upTo)
	}
	for _, c := range t.followers {
		c.mu.Lock()
		if c.saved == nil {
			earliest(c.bound)
		}
		c.mu.Unlock()
	}
	for r := range t.refusedStreams {
		if r.Holds {
			earliest(r.ReadUpTo)
		}
	}
	return at
}

// Restore sets the positions from which to continue. It must be called before Run.
func (t *Tailer) Restore(b json.RawMessage) error {
	if len(b) == 0 || string(b) == "null" {
		return nil
	}
	p, err := position.Decode(b)
	if err != nil {
		return fmt.Errorf("restore positions: %w", err)
	}
	now := t.cfg.Clock()
	t.restoreLosses(p.Losses, now)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.saved, t.state = p.At, true
	if t.saved.After(now) {
		t.saved = now // the clock was set back, so the saved time is in the future
	}
	for key, pos := range p.Streams {
		t.restored[key] = &restored{pos: pos}
	}
	for _, tr := range t.trees {
		if id := p.Roots[tr.root.Path]; id != "" {
			t.roots[tr.root.Path] = id
		}
	}
	return nil
}

// Status returns the state of the source.
func (t *Tailer) Status() sources.Status {
	now := t.cfg.Clock()
	t.mu.Lock()
	defer t.mu.Unlock()
	s := sources.Status{Name: t.cfg.Source, Up: t.up, Watermark: t.watermark}
	s.Unread = t.listUnread(now)
	if n := len(s.Unread) - maxUnread; n > 0 {
		s.Unread, s.UnreadMore = s.Unread[:maxUnread], n
	}
	t.fillStatus(&s)
	if !t.read && t.lags > 0 {
		s.Error = fmt.Sprintf("none of the logs (%d) is read", len(t.followers))
		if len(s.Unread) > 0 {
			s.Error += ", such as " + s.Unread[0].Path + ": " + s.Unread[0].Why
		}
	} else if i := slices.IndexFunc(t.lagging, func(l matcher.LaggingStream) bool { return l.Labels == nil }); i >= 0 && t.lags > matcher.MaxLagging {
		s.Error = fmt.Sprintf("%d logs of more than %d namespaces are not read, so crowsnest concludes nothing from missing lines", t.lags, matcher.MaxLagging)
		s.Watermark = times.Earlier(s.Watermark, t.lagging[i].ReadUpTo)
	}
	s.Logs = len(t.followers)
	for _, tr := range t.trees {
		s.Logs += len(tr.refused)
	}
	total := t.closed
	begun := t.opened
	for _, c := range t.followers {
		c.mu.Lock()
		begun = begun && (c.begun.Load() || !c.stalled.since.IsZero())
		v := c.view
		v.Lines = c.counters.Lines
		total = addCounters(total, c.counters)
		if c.bound.Before(c.tree.foundAt) && c.stalled.since.IsZero() && !c.blocked {
			s.Lag = max(s.Lag, now.Sub(times.Later(c.bound, t.began)))
		}
		c.mu.Unlock()
		s.Streams = append(s.Streams, v)
	}
	t.begun = t.begun || begun
	s.Opened = t.begun
	if !t.up && t.opened {
		s.Lag = max(s.Lag, now.Sub(times.Later(t.watermark, t.began)))
	}
	slices.SortFunc(s.Streams, func(a, b sources.StreamStatus) int { return cmp.Compare(a.Path, b.Path) })
	s.SetCounters(total)
	s.Idle = t.whyEmpty()
	if s.Idle != "" {
		s.IdleReason = sources.IdleNoLogs
	}
	return s
}

// whyEmpty explains why no log is followed. It returns "" if a log is followed or if no tree
// can be searched. The caller holds mu.
func (t *Tailer) whyEmpty() string {
	if !t.up || len(t.followers) > 0 {
		return ""
	}
	var why []string
	for _, tr := range t.trees {
		if text := t.empty[tr]; text != "" {
			why = append(why, text)
		}
	}
	return strings.Join(why, "; ")
}

func addCounters(a, b matcher.Counters) matcher.Counters {
	a.Lines += b.Lines
	a.Bytes += b.Bytes
	a.Evaluated += b.Evaluated
	a.Dropped += b.Dropped
	a.Truncated += b.Truncated
	a.Unparsed += b.Unparsed
	return a
}

// listUnread lists the logs that exist but are not read, ordered by path. The caller holds mu.
func (t *Tailer) listUnread(now time.Time) []sources.Unread {
	out := t.unreadForShortage(now)
	if !t.hangs.IsZero() {
		for _, tr := range t.trees {
			out = append(out, sources.Unread{Path: tr.root.Path, Why: "searching its folders hangs", Since: t.hangs, Holds: true})
		}
	}
	for _, u := range t.failedTrees {
		out = append(out, u)
	}
	for _, c := range t.followers {
		for _, u := range c.listUnread() {
			u.Name = c.found.name()
			out = append(out, u)
		}
	}
	for r := range t.refusedStreams {
		out = append(out, r.Unread)
	}
	slices.SortFunc(out, func(a, b sources.Unread) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

// refusedStreams yields the streams and folders that may not or cannot be read. The caller
// holds mu.
func (t *Tailer) refusedStreams(yield func(refusedStream) bool) {
	for _, tr := range t.trees {
		for _, r := range tr.refused {
			if !yield(r) {
				return
			}
		}
	}
}

// setSearching records whether the search for streams hangs.
func (t *Tailer) setSearching(now time.Time, hangs bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !hangs:
		t.hangs = time.Time{}
	case t.hangs.IsZero():
		t.hangs = now
	}
}

// recordRefused records an unread stream of a tree. The caller holds mu.
func (t *Tailer) recordRefused(tr *tree, s Stream) {
	if _, known := tr.refused[s.Key]; known || len(tr.refused) >= t.cfg.streams {
		return
	}
	u := sources.Unread{Path: tr.root.Abs(s.Dir), Why: s.Refused, Since: t.cfg.Clock()}
	if s.Failed != nil {
		u.Why, u.Holds = s.Failed.Error(), true
		t.recordError("list", s.Failed)
	} else {
		t.countError("refused")
	}
	u.Name = s.name()
	tr.refused[s.Key] = refusedStream{u, s.lagging(times.Earlier(t.watermark, tr.foundAt))}
}

// closeIdleFiles requests the closing of files if too many are open. It selects the files that
// have not been read for the longest time.
func (t *Tailer) closeIdleFiles() {
	excess := t.excessFiles()
	if excess <= 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	type idle struct {
		c  *follower
		at time.Time
	}
	var all []idle
	for _, c := range t.followers {
		c.mu.Lock()
		if c.pinned {
			all = append(all, idle{c, c.view.LastRead})
		}
		c.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b idle) int { return a.at.Compare(b.at) })
	for _, i := range all[:min(excess, len(all))] {
		i.c.closeIdle.Store(true)
		t.queue.Add(i.c)
	}
}
