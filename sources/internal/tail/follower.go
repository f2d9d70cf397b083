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
	lookEvery  = 50 * time.Millisecond  // while a file is read without a pause
	dirsEvery  = 500 * time.Millisecond // where inotify reports changes, and reported none
	grace      = 250 * time.Millisecond
	linger     = 5 * time.Second  // how long a rotated file may still be written to
	idleAfter  = time.Second      // until an unfinished line is matched as it is
	awayAfter  = 2 * time.Second  // quiet time after which a deleted file is closed
	maxAway    = 30 * time.Second // after which it is closed in any case
	maxRewind  = 64 << 10         // bytes that are read again to make a line whole
	maxRewinds = 4                // times that this is done for one line
	doneMax    = 16
	eagerOpen  = 8 // later files of one stream that are held open
)

// follower reads one stream through all of its files. A worker owns it for one turn
// at a time; mu guards what others may read.
type follower struct {
	t      *Tailer
	tree   *tree
	found  Stream
	stream *matcher.Stream
	commit func()

	turn struct { // set while a worker has it
		now  time.Time
		dir  *folder // of the tree; only a trusted one
		busy bool    // the previous turn left something to read
		err  error   // why this turn could not read something
	}
	fromEnd bool      // without a position: files without times are read from their end
	looked  time.Time // when the directory was last looked at
	gen     int64     // of its listing
	settled bool      // no name changed since
	heads   map[string]*head
	known   []member               // at the last look
	before  []member               // at the one before
	names   []string               // of these and of unread files
	broken  map[string]fs.FileInfo // files that were skipped, by name
	unread  map[string]time.Time   // since when files cannot be read, by name
	// doubtful files were skipped before it was known how far they had been read.
	doubtful []member

	cur  *file
	next []*file    // after cur, in order
	old  *file      // before cur: rotated, and may still get bytes
	done []doneFile // read to the end

	oldUntil   time.Time
	nextSince  time.Time // since when next has a file with content
	away       time.Time // since when cur is no longer in the directory
	grew       bool      // cur grew in the last turn
	moved      time.Time // when something was last read
	ended      bool      // the file of the saved point was read to its end
	since      time.Time // when that file was last written to
	prevFirst  int64     // first time in the newest finished file, or in that of the saved point
	closedIdle []*file   // closed to save descriptors: the newest, then the one being read

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
	placed  bool  // the directory was listed, and its files are known
	waiting bool  // for a gunzip; under gunzips.mu

	begun     atomic.Bool // it had its first turn: lines written from now on are read
	hinted    atomic.Bool // something may have happened in the directory
	watched   atomic.Bool // inotify reports changes of the directory
	unlisted  atomic.Bool // the finder no longer sees the stream
	closeIdle atomic.Bool // close the file when it is idle

	mu       sync.Mutex
	saved    *position // nil: nothing was taken yet
	bound    time.Time // watermark of the stream
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

// position is the saved state of a stream.
type position struct {
	point
	Old   *point `json:"old,omitempty"`   // of the rotated file before it
	Ended bool   `json:"ended,omitempty"` // the file was read to its end, and another one came
	// Done are the files that were read before this one and have later times: the
	// clock was set back.
	Done []donePoint `json:"done,omitempty"`
}

// segment maps a run of bytes of the stream to its file.
type segment struct {
	fed int64
	f   *file
	off int64
}

func newChain(t *Tailer, tr *tree, s Stream, saved *position) *follower {
	c := &follower{t: t, tree: tr, found: s, saved: saved, heads: map[string]*head{}}
	c.commit = c.take
	return c
}

// run executes one turn: it reads at most one block. It reports whether there is
// more to read at once.
func (c *follower) run(w *worker) (again bool) {
	c.turn.now, c.turn.err = c.t.cfg.Clock(), nil
	c.clampBound()
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

// look lists the directory and decides which file to read. It returns false if the
// directory or a file in it cannot be read: then the watermark stays.
func (c *follower) look() bool {
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
		c.gen, c.grew = 0, false // until the effect of the change is known
	} else {
		c.looked = now
	}
	switch {
	case !c.statCur():
		return false
	case c.cur != nil && !changed:
		return c.openCur()
	case c.cur == nil && c.closedIdle != nil && !changed && c.closedUnchanged():
		c.advanceTo(now)
		return true
	}
	return c.lookThrough(l, changed)
}

// lookThrough examines the files of a listing, and decides as look does.
func (c *follower) lookThrough(l *listing, changed bool) bool {
	ms, err := c.members(l.entries)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false // it was removed meanwhile: the next look notices
	case errors.Is(err, errUnstable):
		return c.cur != nil && c.openCur()
	case err != nil:
		c.fail("open", err)
		return c.cur != nil && c.openCur() // what is behind cur may wait, cur must not
	}
	over := len(ms) == 0 && c.cur == nil && len(c.refused) == 0
	if c.setOver(over); over {
		c.noFiles(l.gen < 0)
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
		c.advanceTo(c.turn.now)
		return true
	}
	return c.openCur()
}

// confirm checks that no name changed while files were opened by name. If one did,
// the directory is listed again before anything is concluded: with inodes that are
// reused at once, nothing else shows the change.
func (c *follower) confirm() {
	again, err := c.turn.dir.list(c.found.Dir)
	c.settled = err == nil && slices.Equal(c.names, c.ownNames(again)) || errors.Is(err, fs.ErrNotExist)
	if !c.settled {
		c.gen = 0
	}
}

// stat updates an open file's size.
func (c *follower) stat(f *file) bool {
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

// statCur updates the size of cur. If cur grew in the last turn, it is read
// without: most likely it grew again, and the read shows whether it is still the
// same file, unless that depends on its time.
func (c *follower) statCur() bool {
	f := c.cur
	if f == nil {
		return true
	}
	if c.grew && f.sure && f.f != nil && f.gz == nil && len(c.next) == 0 && c.old == nil && c.away.IsZero() &&
		!c.closeIdle.Load() && !c.t.crowded() {
		f.quiet = nil // it may not be idle
		return true
	}
	return c.stat(f)
}

// closedUnchanged reports whether the closed files are as they were left.
func (c *follower) closedUnchanged() bool {
	for _, p := range c.closedIdle {
		fi, err := c.tree.root.lstat(c.rel(p.name))
		if err != nil || !unchanged(fi, p.fi) {
			return false
		}
	}
	return true
}

func (c *follower) rel(name string) string { return path.Join(c.found.Dir, name) }

func (c *follower) setOver(over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = over
}
