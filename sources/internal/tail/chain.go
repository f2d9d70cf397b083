package tail

import (
	"errors"
	"io/fs"
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
	broken  map[string]fs.FileInfo // files that were given up, by name
	unread  map[string]time.Time   // since when files cannot be read, by name
	// doubtful were given up when it was not known yet what was read of them.
	doubtful []member

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
		return c.cur != nil && c.openCur() // what is behind cur may wait, cur must not
	}
	over := len(ms) == 0 && c.cur == nil && len(c.refused) == 0
	if c.setOver(over); over {
		c.gone(l.gen < 0)
	}
	if c.cur != nil {
		c.reconcile(ms)
	} else if err := c.place(ms); err != nil {
		var u *unreadError
		if errors.As(err, &u) {
			c.passOver(u.m, err, l.entries)
		}
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
