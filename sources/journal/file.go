package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"crowsnest/sources/journal/internal/journalfile"
)

// maxValue is the largest number of bytes of a field's value. The matcher looks at fewer.
const maxValue = 64 << 10

// file is a journal file. It stays the same when it is renamed.
type file struct {
	path   string
	id     journalfile.ID
	seq    *sequence
	inode  inode
	stamp  stamp
	listed bool // whether the file has a name in its directory

	f       *os.File // open file; nil if it was read to its end and will not grow
	r       *journalfile.File
	entry   journalfile.Entry // the next entry; valid if ready is set
	ready   bool
	settled bool   // whether a missing last number was accounted for
	last    uint64 // number of the newest entry that was taken from the file
}

// inode identifies a file as long as it exists.
type inode struct{ dev, ino uint64 }

func newInode(info fs.FileInfo) inode {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return inode{uint64(st.Dev), st.Ino} //nolint:unconvert // the type of Dev differs between processors
	}
	return inode{}
}

// stamp reveals that another file got the inode of a removed one.
type stamp struct {
	size    int64
	changed time.Time
}

func newStamp(info fs.FileInfo) stamp { return stamp{info.Size(), info.ModTime()} }

// isFile reports whether info describes this file. If the file is not open, its inode may
// belong to another file by now.
func (f *file) isFile(info fs.FileInfo) bool {
	return f.inode == newInode(info) && (f.f != nil || f.stamp == newStamp(info))
}

// isArchivedName reports whether journald no longer writes to files with such a name. These are
// system@ID-SEQUENCE-TIME.journal, and NAME@TIME-RANDOM.journal~ after a crash.
func isArchivedName(name string) bool {
	return strings.Contains(name, "@") || strings.HasSuffix(name, "~")
}

// isJournal reports whether the name is one that journald gives to its files.
func isJournal(name string) bool {
	return strings.HasSuffix(name, ".journal") || strings.HasSuffix(name, ".journal~")
}

// readEntry reads the next entry into f.entry. It returns the part of the file that could not
// be read, or nil.
func (f *file) readEntry() *journalfile.Damage {
	err := f.r.Next(&f.entry)
	var d *journalfile.Damage
	switch {
	case err == nil:
		f.ready = true
	case errors.As(err, &d):
		return d
	}
	return nil
}

// refreshHeader reads the header again to find new entries.
func (f *file) refreshHeader() error {
	f.r.Final = isArchivedName(f.path)
	if err := f.r.Refresh(); err != nil {
		return fmt.Errorf("read %s: %w", f.path, err)
	}
	return nil
}

// close releases the resources of a file that was read to its end.
func (f *file) close() {
	if f.f != nil {
		_ = f.f.Close()
	}
	f.f, f.r, f.entry, f.ready = nil, nil, journalfile.Entry{}, false
}

// isBefore reports whether the next entry of f precedes the next entry of g. The order is that
// of journalctl.
func (f *file) isBefore(g *file) bool {
	a, b := &f.entry, &g.entry
	switch {
	case f.seq == g.seq:
		return a.Seq < b.Seq
	case a.Boot == b.Boot && a.Monotonic != b.Monotonic:
		return a.Monotonic < b.Monotonic
	}
	return a.Realtime < b.Realtime
}

// explainError adds advice to an error of opening or reading.
func explainError(err error, info fs.FileInfo) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	group := "of the group systemd-journal"
	if info != nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			group = fmt.Sprintf("%d of its group", st.Gid)
		}
	}
	return fmt.Errorf("%w: add the ID %s to the groups of this process (supplementalGroups of the pod), or run it as root", err, group)
}

// isBeingCreated reports whether journald has created the file but not yet written its header.
func isBeingCreated(f *os.File) bool {
	var b [1]byte
	_, err := f.ReadAt(b[:], 0)
	return errors.Is(err, io.EOF) || err == nil && b[0] == 0
}
