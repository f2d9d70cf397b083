package tail

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"crowsnest/internal/times"
	"crowsnest/matcher"
	"crowsnest/sources/internal/content"
	"crowsnest/sources/internal/logdir"
	"crowsnest/sources/internal/position"
)

const (
	pollEvery = 50 * time.Millisecond  // interval of listing the directory while a file is read without pauses
	dirsEvery = 500 * time.Millisecond // interval of listing the directory if inotify reports no change
	grace     = 250 * time.Millisecond
	linger    = 5 * time.Second // time during which a rotated file may still be written to
	// idleAfter is the time without new bytes after which an unfinished line is matched before
	// its end is written.
	idleAfter = time.Second
)

// follower reads one stream through all of its files. Workers read in turns, so that a follower belongs to at most one
// worker at a time. Other goroutines may use only its streamState.
type follower struct {
	*opener
	*streamState
	directory // files of the stream that exist
	sequence  // order in which the files are read
	reader    // state of reading the current file

	lookBackTo func(bound time.Time) time.Time
	fromEnd    bool     // whether files without times are read from their end if no position was saved
	newest     bool     // whether only the newest file is read if no position was saved
	busy       bool     // whether the previous turn stopped before the end of the data
	grew       bool     // whether the current file grew in the last turn
	placed     bool     // whether the directory was listed, so that the files of the stream are known
	doubtful   []member // files that were skipped while it was unknown how far they had been read
}

func newFollower(t *Tailer, tr *tree, s Stream, saved *position.Stream) *follower {
	o := &opener{account: t.account, tree: tr, found: s, gunzips: t.gunzips}
	p := &streamState{saved: saved, folder: tr.root.Abs(s.Dir)}
	c := &follower{
		opener: o, streamState: p, lookBackTo: t.lookBackTo,
		directory: directory{opener: o, heads: map[string]*head{}},
		sequence:  sequence{opener: o},
		reader:    reader{opener: o, pub: p, pipeline: &t.pipeline, framed: t.cfg.Framed},
	}
	o.waiter.Wake = func() { t.queue.add(c) }
	c.commit = func() { // saves the position in the same checkpoint as the hits of the block
		pos := c.position()
		c.ended = false
		c.update(func() { c.saved, c.counters = &pos, c.stream.Counters() })
	}
	return c
}

// runTurn executes one turn of a worker, which reads at most one block. It reports whether
// there is more to read immediately.
func (c *follower) runTurn(w *worker) (again bool) {
	c.now, c.err = c.clock(), nil
	c.update(func() {
		// The clock was set back. How far the stream lags is unknown until the stream is read to its end.
		if isAhead(c.bound, c.now) {
			c.bound = time.Time{}
		}
	})
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
			// If no byte of cur was read, cur may be a file that was copied and truncated (see
			// unreadCopy). Only the directory shows this, and inotify may report the copy
			// after the content is visible. Container runtimes do not copy logs.
			if c.cur.offset > 0 || c.framed || c.cur.fi.Size() == 0 {
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

// pollFiles decides which file of a listing to read. Its result has the same meaning as the
// result of poll.
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
	if c.update(func() { c.isEnded = over }); over {
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
	// If the directory is empty and no position was saved, no line was lost.
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

func (c *follower) membersOf(entries []logdir.Entry) ([]member, error) {
	ms, err := c.listMembers(entries, c.openFiles())
	for range c.setRefused(c.barred) {
		c.countError("refused")
	}
	if err == nil {
		blocked := false // whether the newest file is refused
		for name := range c.barred {
			order, _ := c.found.Order(name)
			blocked = blocked || !slices.ContainsFunc(ms, func(m member) bool { return order.Before(m.order) })
		}
		c.update(func() { c.blocked = blocked })
	}
	c.countSkipped()
	return ms, err
}

// lagging describes the stream as a lagging stream, which was read only up to upTo.
func (c *follower) lagging(upTo time.Time) matcher.LaggingStream {
	c.mu.Lock()
	defer c.mu.Unlock()
	if labels := c.view.Labels; labels != nil { // a file is known
		return matcher.LaggingStream{Labels: labels, ReadUpTo: upTo}
	}
	return c.found.lagging(upTo)
}

// lagging describes a stream whose current files have not been read yet. Its earlier lines were
// read up to upTo.
func (s *Stream) lagging(upTo time.Time) matcher.LaggingStream {
	out := matcher.LaggingStream{UnknownLabels: s.Unknown, ReadUpTo: upTo}
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

// statCur updates the size of cur. If cur grew in the last turn, statCur saves the system call where possible. A file
// that grew has probably grown again, and the next read detects whether it is still the same file.
func (c *follower) statCur() bool {
	f := c.cur
	if f == nil {
		return true
	}
	if c.grew && f.sure && f.f != nil && f.gz == nil && len(c.next) == 0 && c.old == nil && c.away.IsZero() &&
		!c.closeIdle.Load() && !c.isCrowded() {
		f.endState = nil // the file may no longer be idle
		return true
	}
	return c.updateSize(f)
}

// openCur makes sure that cur can be read. If cur is not at its path, the next poll looks for it.
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

// maybeCloseIdle closes an idle file to save its descriptor. If too many files are open, maybeCloseIdle also closes a
// file that is being written to. The follower's next turn opens the file again.
func (c *follower) maybeCloseIdle() {
	f := c.cur
	pressed := c.isCrowded() && c.stream.Unfinished() == 0
	if !c.closeIdle.Load() && !pressed || f.order.GZ && !f.finished || !c.nothingNext() || c.old != nil || !c.away.IsZero() ||
		f.long != nil || f.rest > 0 && !f.shown || !pressed && c.now.Sub(c.lastReadAt) < idleAfter {
		return
	}
	c.closeIdle.Store(false)
	c.closedIdle, c.ended, c.since = append(c.next, f), f.rest == 0, f.fi.ModTime()
	for _, p := range c.closedIdle {
		c.close(p)
	}
	c.cur, c.next = nil, nil
}

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
	pos := position.Stream{Point: p, ReadFiles: c.laterDone(in)}
	if c.old != nil && in == c.cur {
		o := c.old.pointAt(c.old.offset)
		pos.RotatedPoint = &o
	}
	return pos
}

// readCur reads at most one block of the current file. At the end of the file it switches to
// the next file. It reports whether there is more to read.
func (c *follower) readCur(w *worker) bool {
	f := c.cur
	if !c.away.IsZero() && c.now.Sub(c.away) >= maxAway {
		c.countDeleted(f)
		return c.switchFile(w)
	}
	if q := f.endState; f.finished || q != nil && q.Size() == f.fi.Size() && q.ModTime().Equal(f.fi.ModTime()) {
		return c.atEnd(w) // the file is unchanged since a read that reached its end
	}
	if f.isRewritten() {
		c.handleTruncation()
		return true
	}
	before := f.fi
	data, end, err := c.read(f, w)
	if c.flushed > 0 && err == nil && int64(len(data)) > f.rest && c.mayRewind() {
		c.rewindFlushed()
		return true
	}
	switch {
	case errors.Is(err, errChanged):
		c.handleTruncation()
		return true
	case err != nil && f.gz != nil:
		c.countDamaged(f, err)
		end = true // the rest of the file cannot be read
	case err != nil:
		c.recordTurnError("read", err)
		c.passOverCur()
		return false
	}
	c.feed(f, data)
	c.flushOldParts()
	if !end {
		// While a backlog is read, the watermark is the time of the newest line. The lines of a
		// file are sufficiently in order, because rules allow for late lines.
		c.update(func() {
			if !c.lineTime.IsZero() && c.lineTime.Before(c.view.LastRead) {
				c.bound = times.Max(c.lineTime, c.bound)
			}
		})
		return true
	}
	f.endState = before
	return c.atEnd(w)
}

// rewindFlushed moves back to before the flushed parts of a line, so that they are matched
// together with the line's end.
func (c *follower) rewindFlushed() {
	p := &c.parts
	if p.f != c.cur || p.f.gz != nil {
		c.closeAll()
		c.gen, p.f = 0, nil
		return
	}
	switch err := p.f.seek(p.offset); {
	case errors.Is(err, errChanged):
		c.handleTruncation()
	case err != nil:
		c.recordTurnError("read", err)
	}
}

// readOld reads what was appended to the rotated file before cur.
func (c *follower) readOld(w *worker) bool {
	f := c.old
	if f == nil {
		return false
	}
	if f.f == nil || !c.updateSize(f) {
		c.closeOld()
		return false
	}
	if f.fi.Size() > f.offset+f.rest {
		data, end, err := c.read(f, w)
		if err != nil {
			if isIO(err) {
				c.countLoss(lossUnreadable, c.absolutePath(f.name))
			}
			c.closeOld()
			return false
		}
		c.feed(f, data)
		c.oldUntil = c.now.Add(linger)
		return !end
	}
	if !c.now.Before(c.oldUntil) {
		c.finishLine(f, w)
		c.closeOld()
	}
	return false
}

func (c *follower) closeOld() {
	c.close(c.old)
	c.old = nil
	c.update(func() {
		if s := c.saved; s != nil {
			c.saved = &position.Stream{Point: s.Point, Ended: s.Ended, ReadFiles: s.ReadFiles}
		}
	})
}

// atEnd is called when every byte of cur was read. More bytes may be written to cur later.
// atEnd reports whether there is more to read.
func (c *follower) atEnd(w *worker) bool {
	f := c.cur
	if len(c.next) > 0 {
		if !c.settled {
			return true
		}
		if c.mayLeave() {
			return c.switchFile(w)
		}
	} else if c.quietAway() {
		return c.switchFile(w)
	}
	if f.gz != nil { // a compressed file does not grow, and decompressors are scarce
		c.finishLine(f, w)
		f.finished = true
		c.close(f)
	}
	if c.now.Sub(c.lastReadAt) >= idleAfter && !f.shown {
		c.showLine(f, w)
	}
	c.flushOldParts()
	if c.nothingNext() {
		c.advanceTo(c.polled)
	}
	c.maybeCloseIdle()
	return false
}

func (c *follower) quietAway() bool {
	return !c.away.IsZero() && c.now.Sub(times.Max(c.away, c.lastReadAt)) >= awayAfter
}

// mayLeave reports whether no more bytes will be written to cur. A container runtime creates
// the next file before it closes the old one, so the second newest file is kept for a moment.
func (c *follower) mayLeave() bool {
	n := c.next[0]
	if len(c.next) > 1 || n.order.Rotated != "" || c.quietAway() {
		return true
	}
	if n.order.Instance == c.cur.order.Instance && c.nothingNext() {
		return false // the next file is empty, so the position stays in cur
	}
	if !c.cur.isFresh(c.now) {
		return true
	}
	if c.nextSince.IsZero() {
		c.nextSince = c.now
	}
	return c.now.Sub(c.nextSince) >= grace
}

func (c *follower) switchFile(w *worker) bool {
	f := c.cur
	c.finishLine(f, w)
	c.nextSince, c.away = time.Time{}, time.Time{}
	if len(c.next) == 0 || c.next[0].order.Instance != f.order.Instance {
		// The log of the next container does not continue an unfinished line of this log.
		c.flushUnfinished()
		c.flushed = 0
	}
	if f.id.N > 0 {
		c.markDone(position.File{ID: f.id, Size: f.offset})
	}
	c.ended = true
	if f.id.FirstLineTime != 0 {
		c.prevFirst = f.id.FirstLineTime
	}
	if s := c.saved; s != nil && s.Sum == f.id.Sum && s.Offset == f.offset {
		c.markEnded()
	}
	if c.old != nil {
		c.finishLine(c.old, w)
		c.close(c.old)
		c.old = nil
	}
	if len(c.next) > 0 && f.f != nil && f.isFresh(c.now) {
		c.old, c.oldUntil = f, c.now.Add(linger)
	} else {
		c.close(f)
	}
	c.switchToNext()
	if c.cur == nil {
		c.gen, c.since = 0, f.fi.ModTime()
	}
	return c.cur != nil
}

// handleTruncation is called when the bytes before the position have changed. If the file was
// copied before it was truncated, the copy is read. Otherwise the file is read from its start.
func (c *follower) handleTruncation() {
	f := c.cur
	p := f.pointAt(f.offset)
	if f.long != nil {
		p.Offset = f.long.start
	}
	if l, err := c.tree.dirs.Get(c.dir, c.found.Dir, c.now); err == nil {
		if ms, err := c.membersOf(l.Entries); err == nil {
			if i, err := c.findMember(ms, p); err == nil && i >= 0 && !os.SameFile(ms[i].fi, f.fi) {
				if cp, err := c.openMember(ms[i], p.Offset); err == nil {
					c.close(f)
					c.cur = cp
					c.setNext(ms[i+1:])
					return
				}
			}
		}
	}
	c.countLoss(lossTruncated, c.absolutePath(f.name))
	f.id = content.ID{}
	_ = f.seek(0) // this cannot fail
	f.completeID()
}

// placeStart finds the position from which to continue. This is the saved position. Without a
// saved position it depends on a time.
func (c *follower) placeStart(ms []member) error {
	if c.closedIdle != nil && len(ms) > 0 && ms[len(ms)-1].name == c.closedIdle[0].name && c.closedUnchanged() {
		return nil
	}
	live := len(c.closedIdle) == 1
	c.closedIdle, c.away, c.segs = nil, time.Time{}, nil
	c.done = c.done[:0]
	if len(ms) == 0 {
		return nil
	}
	// The file was closed only to save its descriptor, so later lines exist. If the pod is
	// deleted, they are lost.
	if live {
		c.ended = false
	}
	if c.stream == nil { // the first file is known
		c.stream = c.found.New(c.absolutePath(ms[len(ms)-1].name))
		c.update(func() { c.view.Labels = c.stream.Labels() })
	}
	saved := c.saved
	if saved == nil || saved.N == 0 {
		from := c.lookBackTo(c.readUpTo())
		if err := c.lookBack(ms, from, saved == nil && c.fromEnd); err != nil {
			return err
		}
		c.countDoubtful(writtenAfter(from))
		return nil
	}
	c.prevFirst = saved.FirstLineTime
	for _, d := range saved.ReadFiles {
		c.markDone(d)
	}
	i, err := c.findMember(ms, saved.Point)
	if err != nil {
		return err
	}
	if i < 0 {
		if c.confirmNames(); !c.settled {
			return errMoved // the file may only have been renamed in the meantime
		}
		c.placeAfter(ms, saved.Point)
		return nil
	}
	f, err := c.openMember(ms[i], saved.Offset)
	if err != nil {
		return err
	}
	c.countDoubtful(func(m member) bool { return ms[i].order.Before(m.order) })
	c.startWith(f, ms[:i], ms[i+1:])
	if saved.RotatedPoint == nil {
		return nil
	}
	// Continue to read the rotated file before cur.
	i, err = c.findMember(ms, *saved.RotatedPoint)
	if err != nil || i < 0 || ms[i].order.GZ || ms[i].name == c.cur.name {
		return nil //nolint:nilerr // without the rotated file, the lines from cur on are read
	}
	if f, err := c.openMember(ms[i], saved.RotatedPoint.Offset); err == nil {
		c.old, c.oldUntil = f, c.now.Add(linger)
	}
	return nil
}

// placeAfter continues with the first file that is newer than the file of the position p. The
// file of p no longer exists, because it was removed or truncated.
func (c *follower) placeAfter(ms []member, p position.Point) {
	at, _ := c.found.Order(p.Name)
	i := slices.IndexFunc(ms, func(m member) bool {
		switch {
		case m.order.Instance != at.Instance:
			return m.order.Instance > at.Instance
		case m.head.first != 0 && p.FirstLineTime != 0:
			return m.head.first > p.FirstLineTime
		}
		return m.order.Rotated == "" || p.FirstLineTime == 0 && m.fi.ModTime().After(c.since)
	})
	// The newest file is read in any case. It is not the file of the position, even if its
	// time suggests that.
	if last := len(ms) - 1; i < 0 && ms[last].order.Rotated == "" {
		i = last
	}
	switch {
	case c.ended || c.saved.Ended:
		c.countDoubtful(writtenAfter(c.since))
	case len(c.doubtful) > 0: // the file of the position is probably one of the doubtful files
		c.countDoubtful(func(member) bool { return true })
		c.markEnded()
	default:
		c.countLoss(lossGap, c.absolutePath(p.Name))
		c.markEnded()
	}
	if i < 0 {
		i = len(ms)
	}
	c.setNext(ms[i:])
	c.switchToNext()
}

// lookBack starts with the first line that is not older than from. If no file has times, it
// starts at the start of a file. If end is set, it starts at the end of the newest file
// instead.
func (c *follower) lookBack(ms []member, from time.Time, end bool) error {
	start, off, timed := 0, int64(0), false
	for i := len(ms) - 1; i >= 0 && !c.newest; i-- {
		if first := ms[i].head.first; first != 0 {
			timed = true
			if first <= from.UnixNano() {
				start = i
				break
			}
		}
	}
	if c.newest {
		start = len(ms) - 1
	} else if !timed {
		for start < len(ms)-1 && (end || ms[start].fi.ModTime().Before(from)) {
			start++
		}
	}
	f, err := c.openMember(ms[start], 0)
	if err != nil {
		return err
	}
	if f.f != nil && !f.order.GZ {
		switch {
		case timed && ms[start].head.first < from.UnixNano():
			off = content.Search(f.f, f.fi.Size(), from)
		case !timed && end:
			off = content.LineStart(f.f, f.fi.Size())
		}
		if err := f.seek(off); err != nil {
			c.close(f)
			return &unreadError{ms[start], err}
		}
	}
	f.completeID()
	c.startWith(f, ms[:start], ms[start+1:])
	// Commit this position, so that a restart continues here instead of looking back again.
	c.pipeline.scan(c.stream, nil, c.commit)
	return nil
}

// noFiles is called when a stream has no files. It counts a loss if the position is not at the
// end of a file, or if no file was ever examined.
func (c *follower) noFiles(removed bool) {
	pos := c.saved
	if c.placed || c.ended || pos != nil && pos.Ended || pos == nil && !removed {
		return
	}
	c.placed = true
	c.countLoss(lossRemoved, c.folder)
	c.markEnded()
}

func (c *follower) countDoubtful(unread func(m member) bool) {
	for _, m := range c.doubtful {
		if unread(m) {
			c.countLoss(lossUnreadable, c.absolutePath(m.name))
		}
	}
	c.doubtful = nil
}

func writtenAfter(t time.Time) func(m member) bool {
	return func(m member) bool { return m.fi.ModTime().After(t) }
}
