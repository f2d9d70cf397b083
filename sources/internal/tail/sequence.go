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
	// maxAway is the time after which a deleted file is closed because it occupies disk space, even if a process still
	// writes to it.
	maxAway   = 30 * time.Second
	eagerOpen = 8 // largest number of later files of one stream that are kept open
)

// sequence is the order in which the files of a stream are read.
//
// Files are ordered by the times in them. After the clock was set back, this order is wrong. A file that was read long
// ago then sorts after the current file, or a new file sorts before the current file. done records the files that were
// read to their end, so that both cases are detected.
type sequence struct {
	*opener
	cur  *file
	next []*file         // files to read after cur, in order
	old  *file           // rotated file before cur, which may still grow
	done []position.File // files that were read to their end

	oldUntil   time.Time
	nextSince  time.Time // time since which a file of next has had content
	away       time.Time // time at which cur disappeared from the directory; zero if cur is still there
	ended      bool      // whether the file of the saved position was read to its end
	since      time.Time // time at which the file of the saved position was last written to
	prevFirst  int64     // time of the first line in the newest finished file, or in the file of the saved position
	closedIdle []*file   // files closed to save descriptors; the last one is the file that was being read
}

func (s *sequence) markDone(d position.File) {
	s.done = append(s.done, d)
	if len(s.done) > position.MaxDone {
		s.done = slices.Delete(s.done, 0, 1)
	}
}

// startWith makes cur the file to read. The files before it were read or are too old.
func (s *sequence) startWith(cur *file, before, after []member) {
	s.cur = cur
	for _, m := range before {
		// m may be a copy of cur that has more bytes than were read
		if m.head.first != 0 && !cur.id.Is(m.head.bytes) {
			s.markDone(position.File{ID: content.IDOf(m.head.bytes), Size: m.head.size})
		}
	}
	s.setNext(after)
}

// laterDone returns the files that were read before f although their times are later. They are
// saved with f.
func (s *sequence) laterDone(f *file) []position.File {
	if f.id.FirstLineTime == 0 {
		return nil
	}
	var out []position.File
	for _, d := range s.done {
		if d.N == f.id.N && d.Sum == f.id.Sum {
			break // all files after d were read after f
		}
		if d.FirstLineTime > f.id.FirstLineTime {
			out = append(out, d)
		}
	}
	return out
}

// isDone reports whether the file m was read to its end. It returns false for a file without
// times, because another file may start with the same bytes.
func (s *sequence) isDone(m member) bool {
	return m.head.first != 0 && slices.ContainsFunc(s.done, func(d position.File) bool { return d.Is(m.head.bytes) })
}

// bornBefore returns the files of ms before cur that appeared since the last poll, or that are
// known to follow cur.
func (s *sequence) bornBefore(ms, last []member) []member {
	var born []member
	for _, m := range ms {
		if m.head.first == 0 || m.order.Instance != s.cur.order.Instance || m.head.first >= s.cur.id.FirstLineTime || s.isDone(m) {
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

// continuesCur reports whether the file m continues cur. cur is no longer in the directory.
func (s *sequence) continuesCur(m member) bool {
	f := s.cur
	first := f.id.FirstLineTime
	if first == 0 { // an empty file has no time, so the time of the previous file is used
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

// reconcile finds cur and the files after it in ms. last are the files of the last poll.
func (s *sequence) reconcile(ms, last []member) {
	s.cur.completeID() // the file may have been empty when it was found
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
		for i, m := range ms { // cur may have been compressed; then it is the newest file with the same head
			if m.order.GZ && s.cur.id.Is(m.head.bytes) {
				at = i
			}
		}
	}
	if at >= 0 {
		s.setNext(append(s.bornBefore(ms[:at], last), ms[at+1:]...))
		return
	}
	s.setNext(slices.DeleteFunc(slices.Clone(ms), func(m member) bool {
		// Only the first bytes and the length are compared, which also works for files without
		// times.
		looksDone := func(d position.File) bool { return d.Size == m.head.size && d.Is(m.head.bytes) }
		return !s.continuesCur(m) || slices.ContainsFunc(s.done, looksDone)
	}))
	if s.cur.f == nil && !s.cur.finished {
		s.countDeleted(s.cur)
		s.skipCur()
	}
}

// unreadCopy finds the copy of a file that was truncated before any of it was read, and makes
// it cur. Such a copy is a new file that sorts before cur. unreadCopy returns the index of the
// copy, or -1.
func (s *sequence) unreadCopy(ms, last []member) int {
	if s.cur.offset > 0 || s.cur.order.Instance > 0 {
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

// isMember reports whether f is the file m. While f is open, its inode decides. Otherwise the
// inode may have been reused, so the content decides if there is any.
func (f *file) isMember(m member) bool {
	switch {
	case f.f != nil:
		return os.SameFile(m.fi, f.fi)
	case f.id.N > 0:
		return f.id.Is(m.head.bytes) && (f.order.GZ == m.order.GZ || !f.finished)
	}
	return m.name == f.name && os.SameFile(m.fi, f.fi)
}

// setNext sets the files that follow cur. Files that are already open stay, even if they were
// deleted or compressed.
func (s *sequence) setNext(ms []member) {
	var next []*file
	left := slices.Clone(s.next)
	for _, f := range left {
		f.completeID() // the file may have been empty when it was found, and may be compressed by now
	}
	for _, m := range ms {
		if s.isDone(m) {
			continue
		}
		i := slices.IndexFunc(left, func(f *file) bool { return f.isMember(m) })
		if i < 0 && m.order.GZ { // m may be the compressed form of a file
			i = slices.IndexFunc(left, func(f *file) bool { return f.id.Is(m.head.bytes) })
		}
		if i < 0 {
			f := m.newFile()
			if len(next) < eagerOpen && !m.order.GZ && !s.isCrowded() {
				// While the file is open, it can be read even after the pod is deleted.
				_ = s.open(f) // if this fails, it is opened when it becomes cur
			}
			next = append(next, f)
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
	// A file without a name is older than the files with names. It can be read only if it is
	// open. Otherwise its name may belong to another file now.
	left = slices.DeleteFunc(left, func(f *file) bool {
		if f.f == nil {
			s.countDeleted(f)
		}
		return f.f == nil
	})
	s.next = append(left, next...)
	for _, f := range s.next {
		s.updateSize(f)
	}
}

func (s *sequence) nothingNext() bool {
	switch {
	case len(s.next) == 0:
		return true
	case len(s.next) > 1 || s.next[0].order.GZ:
		return false
	}
	n := s.next[0]
	if n.f != nil {
		return s.updateSize(n) && n.fi.Size() == 0
	}
	fi, err := s.tree.root.Lstat(s.relativePath(n.name))
	if err != nil || !os.SameFile(fi, n.fi) { // the file was rotated, and its name belongs to another file
		return false
	}
	n.fi = fi
	return fi.Size() == 0
}

func (s *sequence) closedUnchanged() bool {
	return !slices.ContainsFunc(s.closedIdle, func(f *file) bool {
		fi, err := s.tree.root.Lstat(s.relativePath(f.name))
		return err != nil || !isUnchanged(fi, f.fi)
	})
}

func (s *sequence) skipCur() {
	s.close(s.cur)
	if s.cur.id.N > 0 {
		s.markDone(position.File{ID: s.cur.id, Size: s.cur.offset})
	}
	s.away = time.Time{}
	s.switchToNext()
}

// switchToNext makes the next file cur. cur becomes nil if there is none.
func (s *sequence) switchToNext() {
	s.cur = nil
	if len(s.next) > 0 {
		s.cur, s.next = s.next[0], s.next[1:]
	}
}

// openFiles returns cur, old and next. Some of them may be nil or closed.
func (s *sequence) openFiles() []*file { return append([]*file{s.cur, s.old}, s.next...) }

// closeAll closes every file. The follower can search for its position again later.
func (s *sequence) closeAll() {
	for _, f := range s.openFiles() {
		s.close(f)
	}
	s.cur, s.old, s.next = nil, nil, nil
}
