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
	pollEvery = 50 * time.Millisecond  // interval of listing the directory while a file is read without pauses
	dirsEvery = 500 * time.Millisecond // interval of listing the directory if inotify reports no change
	grace     = 250 * time.Millisecond
	linger    = 5 * time.Second // time during which a rotated file may still be written to
	// time without new bytes after which an unfinished line is matched before its end is
	// written
	idleAfter = time.Second
)

// follower reads one stream through all of its files. Workers read in turns, so that a
// follower belongs to at most one worker at a time. Other goroutines may use only published.
type follower struct {
	*opener
	*published
	directory // files of the stream that exist
	sequence  // order in which the files are read
	reader    // state of reading the current file

	lookBackTo func(bound time.Time) time.Time
	fromEnd    bool // whether files without times are read from their end if no position was saved
	newest     bool // whether only the newest file is read if no position was saved
	busy       bool // whether the previous turn stopped before the end of the data
	grew       bool // whether the current file grew in the last turn
	placed     bool // whether the directory was listed, so that the files of the stream are known
	// doubtful are files that were skipped before it was known how far they had been read.
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
	c.commit = c.commitPosition
	return c
}

// runTurn executes one turn of a worker, which reads at most one block. It reports whether
// there is more to read immediately.
func (c *follower) runTurn(w *worker) (again bool) {
	c.now, c.err = c.clock(), nil
	c.clampBound(c.now)
	c.dir = c.tree.root.Borrow()
	defer c.dir.Release()
	if c.dir == nil || !c.dir.Trusted.Load() {
		return c.readWithoutDirectory(w)
	}
	ok := c.poll()
	f, off := c.cur, int64(0)
	if ok && f != nil {
		off = f.offset
		again = c.readOld(w)
		again = c.readCur(w) || again
	}
	c.grew = ok && f != nil && c.cur == f && f.offset > off
	c.busy = again
	c.begun.Store(true)
	c.publish()
	return again
}

// readWithoutDirectory continues to read an open file while the directory is missing or not
// trusted. It assumes nothing about other files.
func (c *follower) readWithoutDirectory(w *worker) (again bool) {
	f := c.cur
	if f == nil || f.f == nil || f.gz != nil || !c.updateSize(f) || f.fi.Size() <= f.offset+f.rest {
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

// poll lists the directory and decides which file to read. It returns false if the directory
// or a file in it cannot be read. In that case the watermark does not advance.
func (c *follower) poll() bool {
	hinted := c.hinted.Swap(false)
	if c.cur != nil && c.gen != 0 && !hinted {
		switch since := c.now.Sub(c.polled); {
		case since < 0: // list the directory, because the clock was set back
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
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, logdir.ErrRefused) { // the directory no longer exists
		l, err = &logdir.Listing{Gen: -1}, nil
	}
	if err != nil {
		c.recordTurnError("list", err)
		return false
	}
	changed := l.Gen != c.gen || l.Gen < 0
	if changed {
		c.gen, c.grew = 0, false // a failure below must not prevent that the listing is examined again
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

// mayBeCopied reports whether cur has content of which nothing was read. Such a file may have
// been copied and truncated before (see unreadCopy). Only the directory shows this, and
// inotify may report the copy after the content is visible. Files of container runtimes are
// excluded, because runtimes rename their logs.
func (c *follower) mayBeCopied() bool { return c.cur.offset == 0 && !c.framed && c.cur.fi.Size() > 0 }

// pollFiles examines the files of a listing and decides which file to read. Its result has the
// same meaning as the result of poll.
func (c *follower) pollFiles(l *logdir.Listing, changed bool) bool {
	ms, err := c.membersOf(l.Entries)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false // the file was removed in the meantime, which the next poll notices
	case errors.Is(err, errUnstable):
		return c.cur != nil && c.openCur()
	case err != nil:
		c.recordTurnError("open", err)
		return c.cur != nil && c.openCur() // an error with a later file does not stop the reading of cur
	}
	over := len(ms) == 0 && c.cur == nil && len(c.refused) == 0
	if c.setOver(over); over {
		c.noFiles(l.Gen < 0)
	}
	if c.cur != nil {
		c.reconcile(ms, c.olderMembers)
	} else if err := c.placeStart(ms); err != nil {
		var u *unreadError
		if errors.As(err, &u) && c.skipUnreadable(u.m, err, l.Entries) {
			c.countSkipped()
		}
		if !errors.Is(err, errMoved) {
			c.recordTurnError("open", err)
		}
		return false
	}
	c.gen, c.polled = l.Gen, c.now
	// if the directory is empty and no position was saved, no line was lost
	c.placed = c.placed || !over || c.saved == nil && l.Gen >= 0
	if changed || c.cur == nil {
		c.confirmNames()
	}
	if c.cur == nil {
		c.advanceTo(c.now)
		return true
	}
	return c.openCur()
}

// membersOf returns the files of the stream among the entries, in the order they were written.
func (c *follower) membersOf(entries []logdir.Entry) ([]member, error) {
	ms, err := c.listMembers(entries, c.openFiles())
	for range c.setRefused(c.barred) {
		c.countError("refused")
	}
	if err == nil {
		c.setBlocked(ms)
	}
	c.countSkipped()
	return ms, err
}

// setBlocked records whether the newest file may not be read, so that later lines are missed.
func (c *follower) setBlocked(ms []member) {
	blocked := false
	for name := range c.barred {
		order, _ := c.found.Order(name)
		blocked = blocked || !slices.ContainsFunc(ms, func(m member) bool { return order.Before(m.order) })
	}
	c.update(func() { c.blocked = blocked })
}

// lagging describes the stream as a lagging stream, which was read only up to upTo.
func (c *follower) lagging(upTo time.Time) matcher.LaggingStream {
	if labels := c.knownLabels(); labels != nil {
		return matcher.LaggingStream{Labels: labels, ReadUpTo: upTo}
	}
	return c.found.lagging(upTo)
}

// lagging describes a stream whose current files have not been read yet. Its earlier lines were
// read up to upTo.
func (s *Stream) lagging(upTo time.Time) matcher.LaggingStream {
	out := matcher.LaggingStream{Unknown: s.Unknown, ReadUpTo: upTo}
	if s.Labels != nil {
		out.Labels = s.Labels()
	}
	return out
}

// name returns the stream as namespace/pod/container, or "" if it has no such labels.
func (s *Stream) name() string {
	if l := s.lagging(time.Time{}); l.Labels["namespace"] != "" {
		return l.String()
	}
	return ""
}

// countSkipped counts possible losses in skipped files that were not read before. Without a
// position it is unknown which files were read, so the skipped files become doubtful.
func (c *follower) countSkipped() {
	for _, s := range c.skipped {
		waits := func(f *file) bool { return f.f == nil && f.name == s.name }
		switch {
		case c.cur == nil:
			c.doubtful = append(c.doubtful, s.member)
		case !s.known, slices.ContainsFunc(c.next, waits):
			c.countLoss(lossUnreadable, c.absolutePath(s.name))
		}
		c.next = slices.DeleteFunc(c.next, waits)
	}
	c.skipped = c.skipped[:0]
}

// statCur updates the size of cur. If cur grew in the last turn, statCur saves the system call
// where possible. Such a file has probably grown again, and the next read detects whether it
// is still the same file.
func (c *follower) statCur() bool {
	f := c.cur
	if f == nil {
		return true
	}
	if c.grew && f.sure && f.f != nil && f.gz == nil && len(c.next) == 0 && c.old == nil && c.away.IsZero() &&
		!c.closeIdle.Load() && !c.isCrowded() {
		f.quiet = nil // the file may no longer be idle
		return true
	}
	return c.updateSize(f)
}

// openCur makes sure that cur can be read. If cur is not at its path, the next poll looks for
// it, and skips it if it was deleted.
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
	case f.gz != nil: // the file is damaged from its start, and the files after it must not wait
		c.countDamaged(f, err)
		c.skipBroken()
	default:
		c.recordTurnError("open", err)
		c.passOverCur()
	}
	return false
}

// passOverCur skips cur if it has been unreadable for awayAfter and another file follows.
func (c *follower) passOverCur() {
	var since time.Time
	c.update(func() { since = c.stalled.since })
	if len(c.next) == 0 || since.IsZero() || c.now.Sub(since) < awayAfter || logdir.IsOutOfDescriptors(c.err) {
		return
	}
	c.countLoss(lossUnreadable, c.absolutePath(c.cur.name))
	c.skipBroken()
}

func (c *follower) skipBroken() {
	c.broken = setLazily(c.broken, c.cur.name, c.cur.fi)
	c.skipCur()
	c.gen = 0
}

// maybeCloseIdle closes an idle file to save its descriptor. If too many files are open, it
// also closes a file that is being written to, until its next turn.
func (c *follower) maybeCloseIdle() {
	f := c.cur
	pressed := c.isCrowded() && c.stream.Unfinished() == 0
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

// publish updates the part of the follower that other goroutines read.
func (c *follower) publish() {
	if c.err != nil {
		c.recordStall(c.now, c.err.Error())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.stalled.since, c.stalled.why = time.Time{}, ""
	}
	if c.stream != nil {
		c.counters = c.stream.Counters() // the counters then include lines that were flushed after the last block
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
		c.named, c.view.Path = f.name, c.absolutePath(f.name)
	}
	c.view.Offset = f.offset
	if !f.order.GZ {
		c.view.Size = max(f.fi.Size(), f.offset+f.rest)
	}
	for _, n := range c.next {
		if !n.order.GZ {
			c.view.Size += n.fi.Size()
		}
	}
}

// commitPosition stores the position after a block. It runs in the same checkpoint as the hits
// of the block.
func (c *follower) commitPosition() {
	pos := c.position()
	c.ended = false
	c.update(func() { c.saved, c.counters = &pos, c.stream.Counters() })
}

// position returns the position to save, which is before the oldest unfinished line.
func (c *follower) position() position.Stream {
	if f, off := c.oldestUnfinished(); f != nil {
		return c.withOld(f.pointAt(off), f)
	}
	if c.cur.offset > 0 || c.saved == nil || c.saved.N == 0 {
		return c.withOld(c.cur.pointAt(c.cur.offset), c.cur)
	}
	if c.old != nil { // cur was not read yet
		return c.withOld(c.old.pointAt(c.old.offset), c.old)
	}
	return *c.saved
}

func (c *follower) withOld(p position.Point, in *file) position.Stream {
	pos := position.Stream{Point: p, Done: c.laterDone(in)}
	if c.old != nil && in == c.cur {
		o := c.old.pointAt(c.old.offset)
		pos.Old = &o
	}
	return pos
}
