// Package journalfile reads the files of systemd-journald: regular and compact ones,
// with fields compressed by xz, lz4 or zstd.
//
// The format is public: https://systemd.io/JOURNAL_FILE_FORMAT. journald writes a file
// while it is read, and links an entry only after it has written it. What is linked is
// therefore complete, except in files of a system that crashed. Nothing in a file is
// trusted: every offset and size is checked, entries and entry arrays must ascend, and
// memory is bounded, so that no file makes a reader crash, loop or allocate at will.
package journalfile

import (
	"errors"
	"fmt"
	"io"
)

// Bounds of what is read.
const (
	maxOffset = 1 << 46
	maxItems  = 4096    // fields of an entry; journald writes at most 1,024
	maxBad    = 1 << 16 // entries in sequence that cannot be read, before the rest is given up
	maxSkip   = 1 << 10 // the same in Seek

	maxTime = 1 << 55 // microseconds, as in journald
)

// Kinds of objects.
const (
	typeData       = 1
	typeEntry      = 3
	typeEntryArray = 6
)

// Sizes of objects without their variable part.
const (
	objectHead = 16
	dataHead   = 64 // compact: 72
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
	Lost   uint64 // entries that cannot be reached
	Err    error
}

// Error describes the place.
func (d *Damage) Error() string {
	return fmt.Sprintf("damaged at byte %d: %v", d.Offset, d.Err)
}

// Unwrap returns the cause.
func (d *Damage) Unwrap() error { return d.Err }

// File reads one journal file in the order in which it was written. It is not safe for
// concurrent use.
type File struct {
	// Final means that no process writes to the file any more. What is linked and cannot
	// be read in another file may be unfinished, and Next waits for it.
	Final bool

	r   io.ReaderAt
	max int // bytes of a field's value
	h   Header

	array       uint64   // the entry array of the next entry; zero before the first one
	slots, slot uint64   // size of that array, and the place of the next entry in it
	items       []uint64 // items of that array, from slot on
	passed      uint64   // entries before the next one
	last        uint64   // offset of the newest entry
	bad         uint64   // entries since then that could not be read

	main, side window
	inflate    inflater
	known      map[uint64]Field // fields that several entries have, by offset
	knownSize  int
}

// Entry is one entry. Its slices are reused by the next call of Next with it.
type Entry struct {
	Seq       uint64
	Realtime  uint64 // microseconds since 1970
	Monotonic uint64 // microseconds since the boot
	Boot      ID
	Offset    uint64
	data      []uint64
}

// Open reads the header. maxValue bounds the bytes of a value that are kept.
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

// Waiting reports whether Next returned io.EOF although the newest entry was linked: it
// cannot be read, and a process writes to the file.
func (f *File) Waiting() bool { return f.passed < f.h.Entries }

// Refresh reads the header again: Next then sees the entries that were linked by now. It
// fails if the path has become another file in place.
func (f *File) Refresh() error {
	h, err := readHeader(f.r)
	if err != nil {
		return err
	}
	if h.File != f.h.File || h.compact != f.h.compact || h.Entries < f.h.Entries {
		return fmt.Errorf("%w: it was overwritten", ErrFormat)
	}
	if h.Entries != f.h.Entries {
		f.forget(false)
	}
	f.h = h
	return nil
}

// Release frees memory. The next read continues where the last one ended.
func (f *File) Release() { f.forget(true) }
