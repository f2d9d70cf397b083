package tail

import (
	"bytes"
	"os"
	"slices"
	"time"

	"crowsnest/sources/internal/content"
	"crowsnest/sources/internal/position"
)

const (
	maxAway   = 30 * time.Second // after which a deleted file is closed in any case
	eagerOpen = 8                // later files of one stream that are held open
)

// sequence is the order in which the files of a stream are read.
//
// Files are ordered by the times in them. When the clock is set back, that order is
// wrong from then on: a file that was read long ago comes after the current one, and a
// new one comes before it. done records finished files, so that both are detected.
type sequence struct {
	*opener
	cur  *file
	next []*file         // after cur, in order
	old  *file           // before cur: rotated, and may still get bytes
	done []position.File // read to the end

	oldUntil   time.Time
	nextSince  time.Time // time since which next has had a file with content
	away       time.Time // time since which cur has not been in the directory
	ended      bool      // the file of the saved point was read to its end
	since      time.Time // when that file was last written to
	prevFirst  int64     // first time in the newest finished file, or in that of the saved point
	closedIdle []*file   // closed to save descriptors: the newest, then the one being read
}

// remember records that a file was read to its end.
func (s *sequence) remember(d position.File) {
	s.done = append(s.done, d)
	if len(s.done) > position.MaxDone {
		s.done = slices.Delete(s.done, 0, 1)
	}
}

// start starts with cur. The files before it were read, or are too old.
func (s *sequence) start(cur *file, before, after []member) {
	s.cur = cur
	for _, m := range before {
		if m.head.first != 0 && !cur.id.Is(m.head.bytes) { // a copy of cur may have more than was read
			s.remember(position.File{ID: content.IDOf(m.head.bytes), Size: m.head.size})
		}
	}
	s.follow(after)
}

// laterDone returns the files read before f that must be saved with it.
func (s *sequence) laterDone(f *file) []position.File {
	if f.id.First == 0 {
		return nil
	}
	var out []position.File
	for _, d := range s.done {
		if d.N == f.id.N && d.Sum == f.id.Sum {
			break // what comes behind was read after it
		}
		if d.First > f.id.First {
			out = append(out, d)
		}
	}
	return out
}

// isDone reports whether the file was read to its end. Without a time in its
// head a file cannot be distinguished from another one that starts alike.
func (s *sequence) isDone(m member) bool {
	return m.head.first != 0 && slices.ContainsFunc(s.done, func(d position.File) bool { return d.Is(m.head.bytes) })
}

// looksDone is a weaker isDone, also for files without times: it compares the start and
// the length.
func (s *sequence) looksDone(m member) bool {
	return slices.ContainsFunc(s.done, func(d position.File) bool { return d.Size == m.head.size && d.Is(m.head.bytes) })
}

// bornBefore returns the files before cur that were not there at the last poll,
// or that are known to come after cur.
func (s *sequence) bornBefore(ms, last []member) []member {
	var born []member
	for _, m := range ms {
		if m.head.first == 0 || m.order.Instance != s.cur.order.Instance || m.head.first >= s.cur.id.First || s.isDone(m) {
			continue
		}
		old := slices.ContainsFunc(last, func(b member) bool {
			n := min(len(b.head.bytes), len(m.head.bytes))
			return n > 0 && bytes.Equal(b.head.bytes[:n], m.head.bytes[:n])
		})
		if !old || slices.ContainsFunc(s.next, func(f *file) bool { return f.isMember(m) }) {
			born = append(born, m)
		}
	}
	return born
}

// follows reports whether m goes on where cur ends, if cur is not in the directory.
func (s *sequence) follows(m member) bool {
	f := s.cur
	first := f.id.First
	if first == 0 { // an empty file is compared by the file before it
		first = s.prevFirst
	}
	switch {
	case m.order.Instance != f.order.Instance:
		return m.order.Instance > f.order.Instance
	case m.head.first != 0 && first != 0:
		return m.head.first > first
	case m.fi.Size() == 0:
		return true
	}
	return !m.fi.ModTime().Before(f.fi.ModTime())
}

// reconcile finds cur and its successors among the current files. last are those of
// the last poll.
func (s *sequence) reconcile(ms, last []member) {
	s.cur.learn() // the file may have been empty when it was found
	at, isCur := -1, false
	for i, m := range ms {
		if s.cur.isMember(m) {
			at, isCur = i, true
		}
	}
	switch {
	case isCur:
		s.cur.name, s.cur.order, s.away = ms[at].name, ms[at].order, time.Time{}
		if s.cur.f == nil {
			s.cur.fi = ms[at].fi
		}
		if i := s.unreadCopy(ms[:at], last); i >= 0 {
			at = i
		}
	default:
		if s.away.IsZero() {
			s.away = s.now
		}
		for i, m := range ms { // compressed meanwhile: the newest that has its head
			if m.order.GZ && s.cur.id.Is(m.head.bytes) {
				at = i
			}
		}
	}
	if at >= 0 {
		s.follow(append(s.bornBefore(ms[:at], last), ms[at+1:]...))
		return
	}
	s.follow(slices.DeleteFunc(slices.Clone(ms), func(m member) bool { return !s.follows(m) || s.looksDone(m) }))
	if s.cur.f == nil && !s.cur.finished {
		s.deleted(s.cur)
		s.skipCur()
	}
}

// unreadCopy finds the copy of a file that was truncated before any of it was
// read: a file that is new and still comes before cur. It becomes cur.
func (s *sequence) unreadCopy(ms, last []member) int {
	if s.cur.off > 0 || s.cur.order.Instance > 0 {
		return -1
	}
	for i, m := range ms {
		if m.order.GZ || s.isDone(m) || slices.ContainsFunc(last, func(b member) bool { return os.SameFile(b.fi, m.fi) }) {
			continue
		}
		if f, err := s.openMember(m, 0); err == nil {
			s.close(s.cur)
			s.cur = f
			return i
		}
	}
	return -1
}

// isMember reports whether f is the file m. The inode is certain while f is open;
// else it may be in use again, and the content decides, if there is any.
func (f *file) isMember(m member) bool {
	switch {
	case f.f != nil:
		return os.SameFile(m.fi, f.fi)
	case f.id.N > 0:
		return f.id.Is(m.head.bytes) && (f.order.GZ == m.order.GZ || !f.finished)
	}
	return m.name == f.name && os.SameFile(m.fi, f.fi)
}

// follow sets what comes after cur. Files that are open already stay, also if
// they were deleted or compressed meanwhile.
func (s *sequence) follow(ms []member) {
	var next []*file
	left := slices.Clone(s.next)
	for _, f := range left {
		f.learn() // the file may have been empty when it was found, and be compressed now
	}
	for _, m := range ms {
		if s.isDone(m) {
			continue
		}
		i := match(left, m)
		if i < 0 {
			next = append(next, s.newNext(m, len(next) < eagerOpen))
			continue
		}
		f := left[i]
		left = slices.Delete(left, i, i+1)
		if f.isMember(m) {
			f.name, f.order = m.name, m.order
			f.id = content.IDOf(m.head.bytes)
			if f.f == nil || f.order.GZ {
				f.fi = m.fi
			}
		}
		next = append(next, f)
	}
	// A file without a name is older than those with one, and can be read only while
	// it is open. The name of one that was never opened may be that of another file
	// now.
	left = slices.DeleteFunc(left, func(f *file) bool {
		if f.f == nil {
			s.deleted(f)
		}
		return f.f == nil
	})
	s.next = append(left, next...)
	for _, f := range s.next {
		s.stat(f)
	}
}

// match returns which file the member is, or is the compressed form of.
func match(files []*file, m member) int {
	if i := slices.IndexFunc(files, func(f *file) bool { return f.isMember(m) }); i >= 0 || !m.order.GZ {
		return i
	}
	return slices.IndexFunc(files, func(f *file) bool { return f.id.Is(m.head.bytes) })
}

func (s *sequence) newNext(m member, eager bool) *file {
	f := m.file()
	if eager && !m.order.GZ && !s.crowded() {
		// Held open, it can be read even if the pod is deleted now.
		_ = s.open(f) // else when its turn comes
	}
	return f
}

// nothingNext reports whether nothing was written to a file after cur.
func (s *sequence) nothingNext() bool {
	switch {
	case len(s.next) == 0:
		return true
	case len(s.next) > 1 || s.next[0].order.GZ:
		return false
	}
	n := s.next[0]
	if n.f != nil {
		return s.stat(n) && n.fi.Size() == 0
	}
	fi, err := s.tree.root.Lstat(s.rel(n.name))
	if err != nil || !os.SameFile(fi, n.fi) { // the file was rotated, and another one has its name
		return false
	}
	n.fi = fi
	return fi.Size() == 0
}

// tooLongAway reports whether a deleted file has been held for the longest time that
// it may pin the disk.
func (s *sequence) tooLongAway() bool { return !s.away.IsZero() && s.now.Sub(s.away) >= maxAway }

// closedUnchanged reports whether the files that were closed while idle are as they
// were left.
func (s *sequence) closedUnchanged() bool {
	return !slices.ContainsFunc(s.closedIdle, func(f *file) bool {
		fi, err := s.tree.root.Lstat(s.rel(f.name))
		return err != nil || !unchanged(fi, f.fi)
	})
}

// skipCur drops cur and continues with the file after it.
func (s *sequence) skipCur() {
	s.close(s.cur)
	if s.cur.id.N > 0 {
		s.remember(position.File{ID: s.cur.id, Size: s.cur.off})
	}
	s.away = time.Time{}
	s.goOn()
}

// goOn makes the next file cur, nil if there is none.
func (s *sequence) goOn() {
	s.cur = nil
	if len(s.next) > 0 {
		s.cur, s.next = s.next[0], s.next[1:]
	}
}

// opened returns cur, old and next; some may be nil or closed.
func (s *sequence) opened() []*file { return append([]*file{s.cur, s.old}, s.next...) }

// closeAll closes every file; the follower can find a new position.
func (s *sequence) closeAll() {
	for _, f := range s.opened() {
		s.close(f)
	}
	s.cur, s.old, s.next = nil, nil, nil
}
