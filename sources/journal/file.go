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

// maxValue bounds the bytes of a field. It is more than the matcher looks at.
const maxValue = 64 << 10

// file is a journal file. It keeps its identity when it is renamed.
type file struct {
	path   string
	id     journalfile.ID
	seq    *sequence
	inode  inode
	stamp  stamp
	listed bool // reports whether the file has a name in its directory

	f       *os.File // nil if it was read to its end and gets no more entries
	r       *journalfile.File
	entry   journalfile.Entry // the next one, if ready is set
	ready   bool
	settled bool   // its last number is accounted for
	last    uint64 // number of the newest entry that was taken
}

// inode identifies a file while it exists.
type inode struct{ dev, ino uint64 }

func inodeOf(info fs.FileInfo) inode {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return inode{uint64(st.Dev), st.Ino} //nolint:unconvert // Dev has another type on other processors
	}
	return inode{}
}

// stamp changes when another file gets the inode of one that was removed.
type stamp struct {
	size    int64
	changed time.Time
}

func stampOf(info fs.FileInfo) stamp { return stamp{info.Size(), info.ModTime()} }

// is reports whether info is of this file. An inode that is not open may be that of
// another file by now.
func (f *file) is(info fs.FileInfo) bool {
	return f.inode == inodeOf(info) && (f.f != nil || f.stamp == stampOf(info))
}

// archived reports whether journald will write nothing more to a file of this name:
// system@ID-SEQUENCE-TIME.journal, and NAME@TIME-RANDOM.journal~ after a crash.
func archived(name string) bool { return strings.Contains(name, "@") || strings.HasSuffix(name, "~") }

// isJournal reports whether journald names its files so.
func isJournal(name string) bool {
	return strings.HasSuffix(name, ".journal") || strings.HasSuffix(name, ".journal~")
}

// next reads the next entry into f.entry. It returns what could not be read.
func (f *file) next() *journalfile.Damage {
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

// refresh looks for new entries.
func (f *file) refresh() error {
	f.r.Final = archived(f.path)
	if err := f.r.Refresh(); err != nil {
		return fmt.Errorf("read %s: %w", f.path, err)
	}
	return nil
}

// close frees what a file holds that has been read to its end.
func (f *file) close() {
	if f.f != nil {
		_ = f.f.Close()
	}
	f.f, f.r, f.entry, f.ready = nil, nil, journalfile.Entry{}, false
}

// before reports whether the next entry of f comes before that of g, in the order of
// journalctl.
func (f *file) before(g *file) bool {
	a, b := &f.entry, &g.entry
	switch {
	case f.seq == g.seq:
		return a.Seq < b.Seq
	case a.Boot == b.Boot && a.Monotonic != b.Monotonic:
		return a.Monotonic < b.Monotonic
	}
	return a.Realtime < b.Realtime
}

// explain adds the fix to an error of opening or reading.
func explain(err error, info fs.FileInfo) error {
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

// young reports whether journald is just creating a file: its header is not written.
func young(f *os.File) bool {
	var b [1]byte
	_, err := f.ReadAt(b[:], 0)
	return errors.Is(err, io.EOF) || err == nil && b[0] == 0
}
