package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"crowsnest/sources/journal/internal/journalfile"
)

// maxValue is the largest number of bytes of a field's value. The matcher reads fewer.
const maxValue = 64 << 10

// file is a journal file. Renaming it on disk does not change its identity.
type file struct {
	path   string
	id     journalfile.ID
	seq    *sequence
	info   fs.FileInfo // information about the file when it was last listed
	listed bool        // whether the file is still in its directory and was not deleted

	f       *os.File // open file; nil if it was read to its end and will not grow
	r       *journalfile.File
	entry   journalfile.Entry // next entry to pass on; valid if ready is set
	ready   bool
	settled bool   // whether the newest number in a finished file was counted as read, although its entry may not exist
	last    uint64 // number of the newest entry that was read from the file
}

// isFile reports whether info describes this file. A new file may have the inode of a closed file that was removed.
func (f *file) isFile(info fs.FileInfo) bool {
	return os.SameFile(f.info, info) && (f.f != nil || f.info.Size() == info.Size() && f.info.ModTime().Equal(info.ModTime()))
}

// isArchivedName reports whether journald no longer writes to files with this name. Names of archived files are
// system@ID-SEQUENCE-TIME.journal, and NAME@TIME-RANDOM.journal~ after a crash.
func isArchivedName(name string) bool {
	return strings.Contains(name, "@") || strings.HasSuffix(name, "~")
}

func (f *file) close() {
	if f.f != nil {
		_ = f.f.Close()
	}
	f.f, f.r, f.entry, f.ready = nil, nil, journalfile.Entry{}, false
}

// isBefore reports whether journalctl shows the next entry of f before the next entry of g.
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

// explainError adds advice to an error of opening or reading a journal file.
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

func isBeingCreated(f *os.File) bool {
	var b [1]byte
	_, err := f.ReadAt(b[:], 0)
	return errors.Is(err, io.EOF) || err == nil && b[0] == 0
}
