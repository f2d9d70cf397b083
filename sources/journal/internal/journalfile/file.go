// Package journalfile reads the files of systemd-journald, which are regular or compact, with
// fields compressed by xz, lz4 or zstd.
//
// The format is public (https://systemd.io/JOURNAL_FILE_FORMAT). Files may be read while
// journald writes them. journald links an entry only after it has written it, so a linked entry
// is complete, except after a crash of the system. The content of a file is not trusted. Every
// offset and size is checked, entries and entry arrays must be in ascending order, and memory
// is limited. No file can make a reader crash, loop or allocate without limit.
package journalfile

import (
	"errors"
	"fmt"
	"io"
)

// Limits of the values that are read.
const (
	maxOffset = 1 << 46
	maxItems  = 4096    // largest number of fields of an entry; journald writes at most 1,024
	maxBad    = 1 << 16 // successive unreadable entries after which the rest of the file is given up
	maxSkip   = 1 << 10 // successive unreadable entries that Seek skips

	maxTime = 1 << 55 // microseconds; the limit of journald
)

// Kinds of objects.
const (
	typeData       = 1
	typeEntry      = 3
	typeEntryArray = 6
)

// Sizes of objects without their variable parts.
const (
	objectHead = 16
	dataHead   = 64 // 72 in compact files
	entryHead  = 64
	arrayHead  = 24
)

var (
	errShort = errors.New("it ends behind the end of the file")
	errLoop  = errors.New("it is not behind the one before it")
)

// Damage is a place in a file that cannot be read.
type Damage struct {
	Offset uint64
	Lost   uint64 // number of entries that cannot be reached
	Err    error
}

// Error describes the damage and its place.
func (d *Damage) Error() string {
	return fmt.Sprintf("damaged at byte %d: %v", d.Offset, d.Err)
}

// Unwrap returns the cause.
func (d *Damage) Unwrap() error { return d.Err }

// File reads one journal file in the order in which it was written. It is not safe for
// concurrent use.
type File struct {
	// Final is set if no process writes to the file any more. In other files, a linked entry
	// that cannot be read may be unfinished, and Next waits for it.
	Final bool

	r   io.ReaderAt
	max int // largest number of bytes of a field's value
	h   Header

	array       uint64   // offset of the entry array with the next entry; zero before the first one
	slots, slot uint64   // number of slots of that array, and slot of the next entry
	items       []uint64 // offsets of the entries in that array, from slot on
	passed      uint64   // number of entries before the next one
	last        uint64   // offset of the last entry that was read
	bad         uint64   // number of unreadable entries since the last one that was read

	main, side window
	inflate    inflater
	known      map[uint64]Field // cached fields, by their offset
	knownSize  int
}

// Entry is one entry. Its slices are reused when Next is called again with the same Entry.
type Entry struct {
	Seq       uint64
	Realtime  uint64 // time in microseconds since 1970
	Monotonic uint64 // microseconds since the system booted
	Boot      ID
	Offset    uint64
	data      []uint64
}

// Open reads the header of a file. maxValue is the largest number of bytes kept of a value.
func Open(r io.ReaderAt, maxValue int) (*File, error) {
	f := &File{r: r, max: maxValue}
	h, err := readHeader(r)
	if err != nil {
		return nil, err
	}
	f.h = h
	return f, nil
}

// Header returns the header as it was last read.
func (f *File) Header() Header { return f.h }

// IsWaiting reports whether Next returned io.EOF although entries are left. This happens if an
// entry cannot be read and a process still writes to the file.
func (f *File) IsWaiting() bool { return f.passed < f.h.Entries }

// Refresh reads the header again, so that Next sees new entries. It fails if the file was
// overwritten with another journal.
func (f *File) Refresh() error {
	h, err := readHeader(f.r)
	if err != nil {
		return err
	}
	if h.File != f.h.File || h.compact != f.h.compact || h.Entries < f.h.Entries {
		return fmt.Errorf("%w: it was overwritten", ErrFormat)
	}
	if h.Entries != f.h.Entries {
		f.dropBuffers(false)
	}
	f.h = h
	return nil
}

// Release frees memory. Reading can continue afterwards.
func (f *File) Release() { f.dropBuffers(true) }
