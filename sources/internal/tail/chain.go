package tail

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"crowsnest/matcher"
	"crowsnest/sources"
)

const (
	lookEvery = 50 * time.Millisecond  // while a file is read without a pause
	dirsEvery = 500 * time.Millisecond // where the kernel tells of changes, and told of none
	grace     = 250 * time.Millisecond
	linger    = 5 * time.Second  // how long a rotated file may still be written to
	idleAfter = time.Second      // until a line without its end is matched as it is
	awayAfter = 2 * time.Second  // quiet time after which a deleted file is closed
	awayMax   = 30 * time.Second // after which it is closed in any case
	rewindMax = 64 << 10         // bytes that are read again to make a line whole
	rewinds   = 4                // times that this is done for one line
	doneMax   = 16
	eagerOpen = 8 // later files of one stream that are held open
)

// chain reads one stream through all of its files. A worker owns it for one
// turn at a time; what others may look at is below mu.
type chain struct {
	t      *Tailer
	tree   *tree
	found  Stream
	stream *matcher.Stream
	commit func()

	turn struct { // set while a worker has it
		now  time.Time
		dir  *folder // of the tree; only a trusted one
		busy bool    // the turn before left something to read
		err  error   // why something could not be read
	}
	fromEnd bool      // without a position: files without times are read from their end
	looked  time.Time // when the directory was last looked at
	gen     int64     // of its listing
	settled bool      // no name changed since
	heads   map[string]*head
	known   []member               // at the last look
	before  []member               // at the one before
	names   []string               // of them, and of what is not read
	broken  map[string]fs.FileInfo // compressed files that were given up, by name

	cur  *file
	next []*file    // after cur, in order
	old  *file      // before cur: rotated, and may still get bytes
	done []doneFile // read to the end

	oldUntil  time.Time
	nextSince time.Time // since when next has a file with content
	away      time.Time // since when cur is no longer in the directory
	grew      bool      // cur did, at the last turn
	moved     time.Time // when something was last read
	ended     bool      // the file of the saved point was read to its end
	since     time.Time // when that file was last written to
	prevFirst int64     // first time in the newest file that was left, or in that of the saved point
	parked    []*file   // closed to save descriptors: the newest, then the one that was read

	fed   int64 // bytes handed to the stream
	segs  []segment
	parts struct { // the oldest unfinished part
		f     *file // nil: there is none
		head  sum
		off   int64
		since time.Time
		again int // times that it was read again
	}
	flushed int64 // bytes before the frontier that were flushed unfinished
	placed  bool  // the directory was looked into, and what is there is known
	waiting bool  // for a gunzip; under gunzips.mu

	begun    atomic.Bool // it had its first turn: what is written now is read
	hinted   atomic.Bool // something may have happened in the directory
	watched  atomic.Bool // the kernel says so if it does
	unlisted atomic.Bool // the finder no longer sees the stream
	park     atomic.Bool // close the file when it is idle

	mu       sync.Mutex
	saved    *position // nil: nothing was taken yet
	bound    time.Time // up to which the stream is proved to be read
	lineTime time.Time // of the newest line that was read
	over     bool      // there are no files left
	holds    bool      // files are open
	view     sources.StreamStatus
	named    string // the file that view.Path is of
	count    matcher.Counters
	refused  map[string]sources.Unread // files that are refused, by name
	stalled  struct {                  // zero: it is read
		since time.Time
		why   string
	}
}

// position is what is saved of a stream.
type position struct {
	point
	Old   *point `json:"old,omitempty"`   // of the rotated file before it
	Ended bool   `json:"ended,omitempty"` // the file was read to its end, and another one came
	// Done are the files that were read before this one and bear later times: the
	// clock was set back.
	Done []donePoint `json:"done,omitempty"`
}

// segment maps a run of bytes that were handed to the stream to its file.
type segment struct {
	fed int64
	f   *file
	off int64
}

func newChain(t *Tailer, tr *tree, s Stream, saved *position) *chain {
	c := &chain{t: t, tree: tr, found: s, saved: saved, heads: map[string]*head{}}
	c.commit = c.take
	return c
}

// run has one turn: at most one block is read. It reports whether there is more
// to read at once.
func (c *chain) run(w *worker) (again bool) {
	c.turn.now, c.turn.err = c.t.cfg.Clock(), nil
	c.unprove()
	c.turn.dir = c.tree.root.borrow()
	defer c.turn.dir.giveBack()
	if c.turn.dir == nil || !c.turn.dir.trusted.Load() {
		return c.readOn(w)
	}
	ok := c.look()
	f, off := c.cur, int64(0)
	if ok && f != nil {
		off = f.off
		again = c.readOld(w)
		again = c.readCur(w) || again
	}
	c.grew = ok && f != nil && c.cur == f && f.off > off
	c.turn.busy = again
	c.begun.Store(true)
	c.publish()
	return again
}

// readOn reads what is open on, and concludes nothing: the directory is not
// there, or not believed.
func (c *chain) readOn(w *worker) (again bool) {
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

// look looks at the directory and decides which file is read. It returns false
// if the directory or a file in it cannot be read: then nothing is proved.
func (c *chain) look() bool {
	now := c.turn.now
	hinted := c.hinted.Swap(false)
	if c.cur != nil && c.gen != 0 && !hinted {
		switch since := now.Sub(c.looked); {
		case since < 0: // the clock was set back
		case c.turn.busy && since < lookEvery:
			return c.openCur()
		case c.watched.Load() && since < dirsEvery:
			return c.statCur() && c.openCur()
		}
	}
	l, err := c.tree.dirs.get(c.turn.dir, c.found.Dir, now)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errRefused) { // no directory any more
		l, err = &listing{gen: -1}, nil
	}
	if err != nil {
		c.fail("list", err)
		return false
	}
	changed := l.gen != c.gen || l.gen < 0
	if changed {
		c.gen, c.grew = 0, false // until it is known what the change means
	} else {
		c.looked = now
	}
	switch {
	case !c.statCur():
		return false
	case c.cur != nil && !changed:
		return c.openCur()
	case c.cur == nil && c.parked != nil && !changed && c.stillParked():
		c.prove(now)
		return true
	}
	return c.lookThrough(l, changed)
}

// lookThrough looks at the files of a listing, and decides as look does.
func (c *chain) lookThrough(l *listing, changed bool) bool {
	ms, err := c.members(l.entries)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false // it went meanwhile: the next look sees
	case errors.Is(err, errUnstable):
		return c.cur != nil && c.openCur()
	case err != nil:
		c.fail("open", err)
		return false
	}
	over := len(ms) == 0 && c.cur == nil
	if c.setOver(over); over {
		c.gone(l.gen < 0)
	}
	if c.cur != nil {
		c.reconcile(ms)
	} else if err := c.place(ms); err != nil {
		if !errors.Is(err, errMoved) {
			c.fail("open", err)
		}
		return false
	}
	c.gen, c.looked = l.gen, c.turn.now
	c.placed = c.placed || !over || c.saved == nil && l.gen >= 0 // an empty directory has nothing to be lost
	if changed || c.cur == nil {
		c.confirm()
	}
	if c.cur == nil {
		c.prove(c.turn.now)
		return true
	}
	return c.openCur()
}

// confirm makes sure that no name changed while files were opened by name. If
// one did, the directory is looked at again before anything is concluded: with
// inodes that are used again at once, nothing else tells.
func (c *chain) confirm() {
	again, err := c.turn.dir.list(c.found.Dir)
	c.settled = err == nil && slices.Equal(c.names, c.ownNames(again)) || errors.Is(err, fs.ErrNotExist)
	if !c.settled {
		c.gen = 0
	}
}

// stat looks at an open file's size.
func (c *chain) stat(f *file) bool {
	if f.f == nil {
		return true
	}
	fi, err := f.f.Stat()
	if err != nil {
		c.fail("read", err)
		return false
	}
	f.fi = fi
	return true
}

// statCur looks at the size of cur. One that grew at the last turn is read
// without: most likely it did again, and what is read tells whether it still is
// the same file, if nothing depends on its time.
func (c *chain) statCur() bool {
	f := c.cur
	if f == nil {
		return true
	}
	if c.grew && f.sure && f.f != nil && f.gz == nil && len(c.next) == 0 && c.old == nil && c.away.IsZero() &&
		!c.park.Load() && !c.t.crowded() {
		f.quiet = nil // whether it is idle is not known
		return true
	}
	return c.stat(f)
}

// stillParked tells that the closed files are as they were left.
func (c *chain) stillParked() bool {
	for _, p := range c.parked {
		fi, err := c.tree.root.lstat(c.rel(p.name))
		if err != nil || !unchanged(fi, p.fi) {
			return false
		}
	}
	return true
}

func (c *chain) rel(name string) string { return path.Join(c.found.Dir, name) }

func (c *chain) setOver(over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = over
}

// open opens a file of the chain, and a gunzip for it if it is compressed.
// errBusy: none is free; the chain is woken when one is.
func (c *chain) open(f *file) error {
	if f.f == nil {
		h, fi, err := c.t.openFile(c.turn.dir, c.rel(f.name))
		if err != nil {
			return err
		}
		if !os.SameFile(fi, f.fi) || !f.looksLike(h) {
			c.t.closeFile(h)
			return errMoved
		}
		f.f, f.fi = h, fi
	}
	if f.order.GZ && f.gz == nil {
		if f.gz = c.t.gunzips.take(c); f.gz == nil {
			return errBusy
		}
		err := f.at(f.off)
		if errors.Is(err, errChanged) { // it starts alike and is another file
			c.t.miss(lossGap, c.path(f.name))
			err = f.at(0)
		}
		return err
	}
	return nil
}

var (
	errBusy  = errors.New("all decompressors are in use")
	errMoved = errors.New("another file has its name now")
)

// openCur makes sure that cur can be read. A file that is not where it was is
// looked for at the next look, and skipped if it is gone.
func (c *chain) openCur() bool {
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
	case f.gz != nil: // damaged beyond reading: what is behind it must not wait
		c.damaged(f, err)
		if c.broken == nil {
			c.broken = map[string]fs.FileInfo{}
		}
		c.broken[f.name] = f.fi
		c.skipCur()
	default:
		c.fail("open", err)
	}
	return false
}

// skipCur gives cur up and goes on with what is behind it.
func (c *chain) skipCur() {
	f := c.cur
	c.close(f)
	if f.id.n > 0 {
		c.remember(doneFile{f.id, f.off})
	}
	c.away, c.gen = time.Time{}, 0
	c.cur = nil
	if len(c.next) > 0 {
		c.cur, c.next = c.next[0], c.next[1:]
	}
}

func (c *chain) close(f *file) {
	if f == nil {
		return
	}
	if f.gz != nil {
		if woken := c.t.gunzips.give(f.gz); woken != nil {
			c.t.queue.add(woken)
		}
		f.gz = nil
	}
	if f.f != nil {
		c.t.closeFile(f.f)
		f.f = nil
	}
	f.win = nil
}

// closeAll closes every file; the chain can be placed anew.
func (c *chain) closeAll() {
	c.close(c.cur)
	c.close(c.old)
	for _, f := range c.next {
		c.close(f)
	}
	c.cur, c.old, c.next, c.gen = nil, nil, nil, 0
}

// prove says that everything that was written by t was read.
func (c *chain) prove(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.After(c.bound) {
		c.bound = t
	}
}

// unprove takes back what is proved by a time that is still to come: the clock
// was set back, and how far this stream is behind is not known until it is read
// to its end.
func (c *chain) unprove() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ahead(c.bound, c.turn.now) {
		c.bound = time.Time{}
	}
}

// fail counts an error and notes that this turn had it.
func (c *chain) fail(reason string, err error) {
	c.t.fail(reason, err)
	if !errors.Is(err, fs.ErrNotExist) { // files come and go
		c.turn.err = err
	}
}

// stall notes that the chain is not read, since when and why.
func (c *chain) stall(now time.Time, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stalled.why = why
	if c.stalled.since.IsZero() {
		c.stalled.since = now
	}
}

// publish updates what others see of the chain.
func (c *chain) publish() {
	if c.turn.err != nil {
		c.stall(c.turn.now, c.turn.err.Error())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn.err == nil {
		c.stalled.since, c.stalled.why = time.Time{}, ""
	}
	if c.stream != nil {
		c.count = c.stream.Counters() // also of what was flushed after the last block
	}
	c.holds = c.cur != nil || c.old != nil || len(c.next) > 0
	f := c.cur
	if f == nil && len(c.parked) > 0 {
		f = c.parked[len(c.parked)-1]
	}
	if f == nil {
		c.named, c.view.Path = "", c.tree.root.abs(c.found.Dir)
		return
	}
	if c.named != f.name {
		c.named, c.view.Path = f.name, c.tree.root.abs(c.rel(f.name))
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
