package tail

import (
	"errors"
	"io/fs"
	"slices"
	"time"

	"crowsnest/matcher"
	"crowsnest/sources/internal/logdir"
	"crowsnest/sources/internal/position"
)

const (
	pollEvery = 50 * time.Millisecond  // while a file is read without a pause
	dirsEvery = 500 * time.Millisecond // where inotify reports changes, and reported none
	grace     = 250 * time.Millisecond
	linger    = 5 * time.Second // how long a rotated file may still be written to
	idleAfter = time.Second     // until an unfinished line is matched as it is
)

// follower reads one stream through all of its files. A worker owns it for one turn
// at a time; only published is for others.
type follower struct {
	*opener
	*published
	directory // which files exist
	sequence  // where to continue
	reader    // what is being read

	lookBackTo func(bound time.Time) time.Time
	fromEnd    bool // without a position: files without times are read from their end
	newest     bool // without a position: the files before the newest are not read
	busy       bool // the previous turn left something to read
	grew       bool // cur grew in the last turn
	placed     bool // the directory was listed, and its files are known
	// doubtful files were skipped before it was known how far they had been read.
	doubtful []member
}

func newFollower(t *Tailer, tr *tree, s Stream, saved *position.Stream) *follower {
	o := &opener{account: t.account, tree: tr, found: s, gunzips: t.gunzips}
	p := &published{saved: saved, folder: tr.root.Abs(s.Dir)}
	c := &follower{
		opener: o, published: p, lookBackTo: t.lookBackTo,
		directory: directory{opener: o, heads: map[string]*head{}},
		sequence:  sequence{opener: o},
		reader:    reader{opener: o, pub: p, hand: &t.hand, framed: t.cfg.Framed},
	}
	o.waiter.Wake = func() { t.queue.Add(c) }
	c.commit = c.take
	return c
}

// run executes one turn: it reads at most one block. It reports whether there is
// more to read at once.
func (c *follower) run(w *worker) (again bool) {
	c.now, c.err = c.clock(), nil
	c.clampBound(c.now)
	c.dir = c.tree.root.Borrow()
	defer c.dir.Release()
	if c.dir == nil || !c.dir.Trusted.Load() {
		return c.readOn(w)
	}
	ok := c.poll()
	f, off := c.cur, int64(0)
	if ok && f != nil {
		off = f.off
		again = c.readOld(w)
		again = c.readCur(w) || again
	}
	c.grew = ok && f != nil && c.cur == f && f.off > off
	c.busy = again
	c.begun.Store(true)
	c.publish()
	return again
}

// readOn continues to read open files and concludes nothing: the directory is
// missing, or not trusted.
func (c *follower) readOn(w *worker) (again bool) {
	f := c.cur
	if f == nil || f.f == nil || f.gz != nil || !c.stat(f) || f.fi.Size() <= f.off+f.rest {
		return false
	}
	data, end, err := c.read(f, w)
	if err != nil {
		return false
	}
	c.feed(f, data)
	c.publish()
	return !end
}

// poll lists the directory and decides which file to read. It returns false if the
// directory or a file in it cannot be read: then the watermark stays.
func (c *follower) poll() bool {
	hinted := c.hinted.Swap(false)
	if c.cur != nil && c.gen != 0 && !hinted {
		switch since := c.now.Sub(c.polled); {
		case since < 0: // the clock was set back
		case c.busy && since < pollEvery:
			return c.openCur()
		case c.watched.Load() && since < dirsEvery:
			if !c.statCur() {
				return false
			}
			if !c.mayBeCopied() {
				return c.openCur()
			}
		}
	}
	l, err := c.tree.dirs.Get(c.dir, c.found.Dir, c.now)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, logdir.ErrRefused) { // no directory any more
		l, err = &logdir.Listing{Gen: -1}, nil
	}
	if err != nil {
		c.fail("list", err)
		return false
	}
	changed := l.Gen != c.gen || l.Gen < 0
	if changed {
		c.gen, c.grew = 0, false // until the effect of the change is known
	} else {
		c.polled = c.now
	}
	switch {
	case !c.statCur():
		return false
	case c.cur != nil && !changed:
		return c.openCur()
	case c.cur == nil && c.closedIdle != nil && !changed && c.closedUnchanged():
		c.advanceTo(c.now)
		return true
	}
	return c.pollFiles(l, changed)
}

// mayBeCopied reports whether cur has something to read, and none of it was read: only the
// directory shows whether it was copied and truncated before; see unreadCopy. A report of
// inotify may come later than what was written since. Runtimes rename their logs.
func (c *follower) mayBeCopied() bool { return c.cur.off == 0 && !c.framed && c.cur.fi.Size() > 0 }

// pollFiles examines the files of a listing, and decides as poll does.
func (c *follower) pollFiles(l *logdir.Listing, changed bool) bool {
	ms, err := c.membersOf(l.Entries)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false // the file was removed meanwhile, which the next poll notices
	case errors.Is(err, errUnstable):
		return c.cur != nil && c.openCur()
	case err != nil:
		c.fail("open", err)
		return c.cur != nil && c.openCur() // the files after cur may wait, cur must not
	}
	over := len(ms) == 0 && c.cur == nil && len(c.refused) == 0
	if c.setOver(over); over {
		c.noFiles(l.Gen < 0)
	}
	if c.cur != nil {
		c.reconcile(ms, c.before)
	} else if err := c.place(ms); err != nil {
		var u *unreadError
		if errors.As(err, &u) && c.skip(u.m, err, l.Entries) {
			c.countSkipped()
		}
		if !errors.Is(err, errMoved) {
			c.fail("open", err)
		}
		return false
	}
	c.gen, c.polled = l.Gen, c.now
	c.placed = c.placed || !over || c.saved == nil && l.Gen >= 0 // an empty directory has nothing to be lost
	if changed || c.cur == nil {
		c.confirm()
	}
	if c.cur == nil {
		c.advanceTo(c.now)
		return true
	}
	return c.openCur()
}

// membersOf returns the files among the entries in the order they were written.
func (c *follower) membersOf(entries []logdir.Entry) ([]member, error) {
	ms, err := c.members(entries, c.opened())
	for range c.setRefused(c.barred) {
		c.count("refused")
	}
	if err == nil {
		c.setBlocked(ms)
	}
	c.countSkipped()
	return ms, err
}

// setBlocked records whether the newest file is one that is refused.
func (c *follower) setBlocked(ms []member) {
	blocked := false
	for name := range c.barred {
		order, _ := c.found.Order(name)
		blocked = blocked || !slices.ContainsFunc(ms, func(m member) bool { return order.Before(m.order) })
	}
	c.update(func() { c.blocked = blocked })
}

// lagging describes the stream, which was read up to a time.
func (c *follower) lagging(upTo time.Time) matcher.LaggingStream {
	if labels := c.knownLabels(); labels != nil {
		return matcher.LaggingStream{Labels: labels, ReadUpTo: upTo}
	}
	return c.found.lagging(upTo)
}

// lagging describes a stream of which no file was read yet.
func (s *Stream) lagging(upTo time.Time) matcher.LaggingStream {
	out := matcher.LaggingStream{Unknown: s.Unknown, ReadUpTo: upTo}
	if s.Labels != nil {
		out.Labels = s.Labels()
	}
	return out
}

// name returns the stream as namespace/pod/container, "" if it has no such labels.
func (s *Stream) name() string {
	if l := s.lagging(time.Time{}); l.Labels["namespace"] != "" {
		return l.String()
	}
	return ""
}

// countSkipped counts possible loss in files that were skipped, unless they were read
// before. Before the follower has a position, that is not known.
func (c *follower) countSkipped() {
	for _, s := range c.skipped {
		waits := func(f *file) bool { return f.f == nil && f.name == s.name }
		switch {
		case c.cur == nil:
			c.doubtful = append(c.doubtful, s.member)
		case !s.known, slices.ContainsFunc(c.next, waits):
			c.miss(lossUnreadable, c.path(s.name))
		}
		c.next = slices.DeleteFunc(c.next, waits)
	}
	c.skipped = c.skipped[:0]
}

// statCur updates the size of cur. It skips that if cur grew in the last turn: most
// likely cur grew again, and the read shows whether it is still the same file, unless
// that depends on its modification time.
func (c *follower) statCur() bool {
	f := c.cur
	if f == nil {
		return true
	}
	if c.grew && f.sure && f.f != nil && f.gz == nil && len(c.next) == 0 && c.old == nil && c.away.IsZero() &&
		!c.closeIdle.Load() && !c.crowded() {
		f.quiet = nil // the log may not be idle
		return true
	}
	return c.stat(f)
}

// openCur makes sure that cur can be read. A file that is not where it was is
// looked for at the next poll, and skipped if its pod was deleted.
func (c *follower) openCur() bool {
	f := c.cur
	if f.finished || f.f != nil && (!f.order.GZ || f.gz != nil) {
		return true
	}
	err := c.open(f)
	switch {
	case err == nil:
		return true
	case errors.Is(err, errBusy):
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errMoved):
		c.gen = 0
	case f.gz != nil: // nothing of it can be decompressed: the files after it must not wait
		c.damaged(f, err)
		c.skipBroken()
	default:
		c.fail("open", err)
		c.passOverCur()
	}
	return false
}

// passOverCur skips cur if it cannot be read for awayAfter and another file comes
// after it.
func (c *follower) passOverCur() {
	var since time.Time
	c.update(func() { since = c.stalled.since })
	if len(c.next) == 0 || since.IsZero() || c.now.Sub(since) < awayAfter || logdir.Exhausted(c.err) {
		return
	}
	c.miss(lossUnreadable, c.path(c.cur.name))
	c.skipBroken()
}

func (c *follower) skipBroken() {
	c.broken = grown(c.broken, c.cur.name, c.cur.fi)
	c.skipCur()
	c.gen = 0
}

// maybeCloseIdle closes an idle file to save its descriptor. If too many are open
// even so, one that is written to is closed as well, until its next turn.
func (c *follower) maybeCloseIdle() {
	f := c.cur
	pressed := c.crowded() && c.stream.Unfinished() == 0
	if !c.closeIdle.Load() && !pressed || f.order.GZ && !f.finished || !c.nothingNext() || c.old != nil || !c.away.IsZero() ||
		f.long != nil || f.rest > 0 && !f.shown || !pressed && c.now.Sub(c.moved) < idleAfter {
		return
	}
	c.closeIdle.Store(false)
	c.closedIdle, c.ended, c.since = append(c.next, f), f.rest == 0, f.fi.ModTime()
	for _, p := range c.closedIdle {
		c.close(p)
	}
	c.cur, c.next = nil, nil
}

// publish updates what others can read of the follower.
func (c *follower) publish() {
	if c.err != nil {
		c.stall(c.now, c.err.Error())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.stalled.since, c.stalled.why = time.Time{}, ""
	}
	if c.stream != nil {
		c.counters = c.stream.Counters() // also of what was flushed after the last block
	}
	c.pinned = c.cur != nil || c.old != nil || len(c.next) > 0
	f := c.cur
	if f == nil && len(c.closedIdle) > 0 {
		f = c.closedIdle[len(c.closedIdle)-1]
	}
	if f == nil {
		c.named, c.view.Path = "", c.folder
		return
	}
	if c.named != f.name {
		c.named, c.view.Path = f.name, c.path(f.name)
	}
	c.view.Offset = f.off
	if !f.order.GZ {
		c.view.Size = max(f.fi.Size(), f.off+f.rest)
	}
	for _, n := range c.next {
		if !n.order.GZ {
			c.view.Size += n.fi.Size()
		}
	}
}

// take is the commit of every block: it runs in the same checkpoint as the block's
// hits.
func (c *follower) take() {
	pos := c.position()
	c.ended = false
	c.update(func() { c.saved, c.counters = &pos, c.stream.Counters() })
}

// position returns the position before the oldest line without its end.
func (c *follower) position() position.Stream {
	if f, off := c.unfinished(); f != nil {
		return c.withOld(f.point(off), f)
	}
	if c.cur.off > 0 || c.saved == nil || c.saved.N == 0 {
		return c.withOld(c.cur.point(c.cur.off), c.cur)
	}
	if c.old != nil { // nothing of cur was read yet
		return c.withOld(c.old.point(c.old.off), c.old)
	}
	return *c.saved
}

func (c *follower) withOld(p position.Point, in *file) position.Stream {
	pos := position.Stream{Point: p, Done: c.laterDone(in)}
	if c.old != nil && in == c.cur {
		o := c.old.point(c.old.off)
		pos.Old = &o
	}
	return pos
}
