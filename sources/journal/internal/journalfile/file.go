// Package journalfile reads the files of systemd-journald, which are regular or compact, with
// fields compressed by xz, lz4 or zstd.
//
// The format is public (https://systemd.io/JOURNAL_FILE_FORMAT). Files may be read while journald writes them. journald
// links an entry only after it has written it, so a linked entry is complete, except after a crash of the system. The
// content of a file is not trusted. Every offset and size is checked, entries and entry arrays must be in ascending
// order, and memory is limited. No file can make a reader crash, loop or allocate without limit.
package journalfile

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"sort"
)

// Limits of the values that are read.
const (
	maxOffset = 1 << 46
	maxItems  = 4096    // largest number of fields of an entry; journald writes at most 1,024
	maxBad    = 1 << 16 // largest number of successive unreadable entries before the rest of the file is skipped
	maxSkip   = 1 << 10 // largest number of successive unreadable entries that Seek skips

	maxTime = 1 << 55 // largest time in microseconds, which is the limit of journald
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
	dataHead   = 64 // size in regular files; 72 in compact files
	entryHead  = 64
	arrayHead  = 24
)

var (
	errShort = errors.New("the object ends after the end of the file")
	errLoop  = errors.New("the object is not after the previous object")
)

// Damage describes a place in a file that cannot be read.
type Damage struct {
	Offset      uint64
	LostEntries uint64 // number of entries that cannot be read because of the damage
	Err         error
}

// Error describes the damage and its place.
func (d *Damage) Error() string {
	return fmt.Sprintf("damaged at byte %d: %v", d.Offset, d.Err)
}

// Unwrap returns the cause.
func (d *Damage) Unwrap() error { return d.Err }

// File reads one journal file in the order in which it was written. It is not safe for concurrent use.
type File struct {
	// Final is set if no process writes to the file any more. In other files, a linked entry
	// that cannot be read may be unfinished, and Next waits for it.
	Final bool

	r   io.ReaderAt
	max int // largest number of bytes of a field's value
	h   Header

	array       uint64   // offset of the entry array that contains the next entry; zero before the first array
	slots, slot uint64   // number of slots of that array, and index of the next entry's slot
	items       []uint64 // offsets of the entries in that array, from slot on
	passed      uint64   // number of entries before the next entry
	last        uint64   // offset of the last entry that was read
	bad         uint64   // number of unreadable entries since the last entry that was read

	main, side window
	inflate    inflater
	known      map[uint64]Field // cached fields; the key is the offset of the field in the file
	knownSize  int
}

// Entry is one entry. Its slices are reused when Next is called again with the same Entry.
type Entry struct {
	Seq       uint64
	Realtime  uint64 // time in microseconds since 1970
	Monotonic uint64 // time since the system booted, in microseconds
	Boot      ID
	Offset    uint64
	data      []uint64
}

// Open reads the header of a file. maxValue is the number of bytes of a field's value that are kept.
func Open(r io.ReaderAt, maxValue int) (*File, error) {
	f := &File{r: r, max: maxValue}
	h, err := readHeader(r)
	if err != nil {
		return nil, err
	}
	f.h = h
	return f, nil
}

// Header returns the header that Open or Refresh read last.
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

// ErrFormat means that a file is not a journal, or is a journal that this package cannot read.
var ErrFormat = errors.New("not a readable journal file")

// ID is a 128-bit identifier of systemd.
type ID [16]byte

// String returns the ID as 32 hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText returns the ID as 32 hexadecimal digits.
func (id ID) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, id[:]), nil }

// UnmarshalText reads 32 hexadecimal digits.
func (id *ID) UnmarshalText(text []byte) error {
	if len(text) != 2*len(id) {
		return fmt.Errorf("%q is not an ID of 32 hexadecimal digits", text)
	}
	_, err := hex.Decode(id[:], text)
	return err
}

// Header is the content of a file's header when it was read.
type Header struct {
	File    ID     // ID of the file, which survives renaming
	Seqnum  ID     // ID of the sequence that numbers the entries; several files can share it
	Online  bool   // whether the file was not closed properly, because a process still writes to it or was killed
	Entries uint64 // number of linked entries, which are complete
	TailSeq uint64 // newest number that journald assigned; the entry may be unfinished
	size    uint64 // size of the header in bytes
	array   uint64 // offset of the first entry array
	compact bool
}

// Layout of the header. Fields after minHeader exist only in newer files and are not used.
const (
	signature  = "LPKSHHRH"
	minHeader  = 208
	maxHeader  = 64 << 10
	flagsKnown = 1<<5 - 1 // flags for xz, lz4, keyed hash, zstd and compact
	compactBit = 1 << 4
	online     = 1
)

var le = binary.LittleEndian

func readHeader(r io.ReaderAt) (Header, error) {
	var b [minHeader]byte
	if n, err := r.ReadAt(b[:], 0); n < minHeader {
		if errors.Is(err, io.EOF) {
			return Header{}, fmt.Errorf("%w: it has only %d bytes", ErrFormat, n)
		}
		return Header{}, fmt.Errorf("read the header: %w", err)
	}
	if string(b[:8]) != signature {
		return Header{}, fmt.Errorf("%w: it does not begin with %s", ErrFormat, signature)
	}
	flags := le.Uint32(b[12:])
	if unknown := flags &^ flagsKnown; unknown != 0 {
		return Header{}, fmt.Errorf("%w: it uses features that this version does not know (flags %#x); update crowsnest", ErrFormat, unknown)
	}
	h := Header{
		File: ID(b[24:40]), Seqnum: ID(b[72:88]), Online: b[16] == online,
		size: le.Uint64(b[88:]), compact: flags&compactBit != 0,
		Entries: le.Uint64(b[152:]), TailSeq: le.Uint64(b[160:]), array: le.Uint64(b[176:]),
	}
	if h.size < minHeader || h.size > maxHeader || h.size%8 != 0 {
		return Header{}, fmt.Errorf("%w: the size of its header is %d", ErrFormat, h.size)
	}
	return h, nil
}

// Next reads the next entry. It returns io.EOF if there is no further entry yet. If an entry
// cannot be read, it returns a *Damage, and the next call continues after that entry. At the
// end of a file that is being written to, Next waits and does not report damage.
func (f *File) Next(e *Entry) error {
	if f.passed >= f.h.Entries {
		return io.EOF
	}
	off, err := f.nextOffset()
	if err == nil {
		err = f.readEntry(off, e)
	}
	if err == nil {
		f.last, f.bad = off, 0
		f.passEntry()
		return nil
	}
	var d *Damage
	if !errors.As(err, &d) { // an error of an entry array is already a Damage
		d = &Damage{Offset: off, LostEntries: 1, Err: err}
	}
	if f.bad++; f.bad > maxBad {
		d.LostEntries = f.h.Entries - f.passed
	}
	if !f.Final && f.h.Online && f.passed+1 == f.h.Entries {
		f.dropBuffers(false)
		return io.EOF
	}
	if d.LostEntries > 1 {
		f.passed = f.h.Entries
	} else {
		f.passEntry()
	}
	return d
}

func (f *File) passEntry() {
	f.passed++
	f.slot++
	f.items = f.items[min(1, len(f.items)):]
}

func (f *File) nextOffset() (uint64, error) {
	if f.slot >= f.slots {
		if err := f.nextArray(); err != nil {
			return 0, err
		}
	}
	if len(f.items) == 0 { // read the offsets of the entries from the current slot on
		size := f.itemSize()
		n := min(f.slots-f.slot, f.h.Entries-f.passed, sideSize/size)
		b, err := f.readBytes(f.array+arrayHead+f.slot*size, n*size, false)
		if err != nil {
			return f.array, err
		}
		f.items = f.items[:0]
		for ; len(b) > 0; b = b[size:] {
			f.items = append(f.items, f.decodeOffset(b))
		}
	}
	if off := f.items[0]; off > f.last {
		return off, nil
	}
	return f.items[0], errLoop
}

func (f *File) nextArray() error {
	next := f.h.array
	lost := func(err error) error { return &Damage{Offset: next, LostEntries: f.h.Entries - f.passed, Err: err} }
	var err error
	if f.array != 0 {
		if next, _, err = f.readArrayHead(f.array); err != nil {
			return lost(err)
		}
	}
	if next <= f.array {
		return lost(fmt.Errorf("the next entry array: %w", errLoop))
	}
	_, slots, err := f.readArrayHead(next)
	if err != nil {
		return lost(err)
	}
	f.array, f.slots, f.slot, f.items = next, slots, 0, f.items[:0]
	return nil
}

// readArrayHead reads the start of the entry array at off. It returns the offset of the next
// array, and the number of slots.
func (f *File) readArrayHead(off uint64) (next, slots uint64, err error) {
	b, err := f.readObject(off, typeEntryArray, arrayHead, false)
	if err != nil {
		return 0, 0, err
	}
	slots = (le.Uint64(b[8:]) - arrayHead) / f.itemSize()
	if slots == 0 {
		return 0, 0, errors.New("an entry array has no room")
	}
	return le.Uint64(b[16:]), slots, nil
}

func (f *File) itemSize() uint64 {
	if f.h.compact {
		return 4
	}
	return 8
}

func (f *File) decodeOffset(b []byte) uint64 {
	if f.h.compact {
		return uint64(le.Uint32(b))
	}
	return le.Uint64(b)
}

// readObject reads the first bytes of an object. kind is the expected kind. entry has the same meaning as in readBytes.
func (f *File) readObject(off uint64, kind byte, head uint64, entry bool) ([]byte, error) {
	if off%8 != 0 || off < f.h.size {
		return nil, errors.New("no object begins there")
	}
	b, err := f.readBytes(off, head, entry)
	if err != nil {
		return nil, err
	}
	if b[0] != kind {
		return nil, fmt.Errorf("it is an object of type %d and not %d", b[0], kind)
	}
	if size := le.Uint64(b[8:]); size < head {
		return nil, fmt.Errorf("its size is %d", size)
	}
	return b, nil
}

func (f *File) readEntry(off uint64, e *Entry) error {
	b, err := f.readObject(off, typeEntry, entryHead, true)
	if err != nil {
		return err
	}
	size, item := le.Uint64(b[8:]), 2*f.itemSize() // an item consists of an offset and a hash
	if f.h.compact {
		item = 4
	}
	n := (size - entryHead) / item
	if n == 0 || n > maxItems {
		return fmt.Errorf("the entry has %d fields", n)
	}
	if b, err = f.readBytes(off, entryHead+n*item, true); err != nil {
		return err
	}
	e.Seq, e.Realtime, e.Monotonic, e.Boot = le.Uint64(b[16:]), le.Uint64(b[24:]), le.Uint64(b[32:]), ID(b[40:56])
	if e.Seq == 0 || e.Realtime == 0 || e.Realtime >= maxTime || e.Monotonic >= maxTime {
		return errors.New("the entry has no valid number or time")
	}
	e.Offset, e.data = off, e.data[:0]
	for b = b[entryHead:]; len(b) > 0; b = b[item:] {
		e.data = append(e.data, f.decodeOffset(b))
	}
	return nil
}

// Seek moves to the first entry for which after returns true. It is a binary search that reads
// few entries. Entries for which after returns false must precede all others. If they do not,
// for example because the clock was set back, Seek finds one of the possible places.
func (f *File) Seek(after func(*Entry) bool) {
	f.array, f.slots, f.slot, f.items, f.passed, f.last, f.bad = 0, 0, 0, f.items[:0], 0, 0, 0
	var e Entry
	for f.passed < f.h.Entries && f.nextArray() == nil {
		n := min(f.slots, f.h.Entries-f.passed, maxOffset)
		at := uint64(sort.Search(int(n), func(i int) bool { //nolint:gosec // n is smaller than the size of a file
			// An unreadable entry gets the result of the next readable entry.
			for k := uint64(i); k < min(n, uint64(i)+maxSkip); k++ { //nolint:gosec // i is not negative
				b, err := f.readBytes(f.array+arrayHead+k*f.itemSize(), f.itemSize(), false)
				if err == nil && f.readEntry(f.decodeOffset(b), &e) == nil {
					return after(&e)
				}
			}
			return true
		}))
		f.slot = at
		f.passed += at
		if at < n {
			return
		}
	}
}

// Field is a field of an entry.
type Field struct {
	Name, Value []byte
	Cut         bool  // whether the value was longer than the limit
	Err         error // error of reading the field; if it is set, Name is unknown
}

// Limits of the cache of fields. A field is cached because several entries may refer to it.
const (
	maxKnown     = 256     // largest number of bytes of one cached field
	maxKnownSize = 1 << 20 // largest number of bytes of all cached fields
	knownCost    = 160     // overhead of each cached field, in bytes
	maxName      = 64      // journald allows names of at most 64 bytes
)

// Fields yields the fields of an entry in the order of the file. A field that cannot be read
// has Err set. Name and Value are valid until the next iteration.
func (f *File) Fields(e *Entry) iter.Seq[Field] {
	return func(yield func(Field) bool) {
		for _, off := range e.data {
			field, ok := f.known[off]
			if !ok {
				var err error
				if field, err = f.readField(off); err != nil {
					field = Field{Err: &Damage{Offset: off, Err: err}}
				}
			}
			if !yield(field) {
				return
			}
		}
	}
}

func (f *File) readField(off uint64) (Field, error) {
	head := uint64(dataHead)
	if f.h.compact {
		head += 8
	}
	b, err := f.readObject(off, typeData, head, false)
	if err != nil {
		return Field{}, err
	}
	flags, size, users := b[1], le.Uint64(b[8:])-head, le.Uint64(b[56:])
	keep := uint64(f.max) + maxName + 1
	n := min(size, keep)
	if flags != 0 { // the last block that is decompressed may be longer than the part that is kept
		n = min(size, keep+maxBlock)
	}
	if b, err = f.readBytes(off+head, n, false); err != nil {
		return Field{}, err
	}
	cut := n < size
	if flags != 0 {
		if b, cut, err = f.inflate.decompress(flags, b, int(keep)); err != nil { //nolint:gosec // keep is small
			return Field{}, fmt.Errorf("decompress a field: %w", err)
		}
	}
	name, value, ok := bytes.Cut(b, []byte("="))
	if !ok || len(name) == 0 || len(name) > maxName {
		return Field{}, errors.New("it is no field")
	}
	if len(value) > f.max {
		value, cut = value[:f.max], true
	}
	field := Field{Name: name, Value: value, Cut: cut}
	if users > 1 && len(value) <= maxKnown && !cut {
		field = f.cacheField(off, field)
	}
	return field, nil
}

func (f *File) cacheField(off uint64, field Field) Field {
	size := len(field.Name) + len(field.Value)
	if f.knownSize += size + knownCost; f.known == nil || f.knownSize > maxKnownSize {
		f.known, f.knownSize = map[uint64]Field{}, size+knownCost
	}
	b := append(append(make([]byte, 0, size), field.Name...), field.Value...)
	field.Name, field.Value = b[:len(field.Name):len(field.Name)], b[len(field.Name):]
	f.known[off] = field
	return field
}

const (
	windowSize = 128 << 10
	sideSize   = 4 << 10
	// behind is the number of bytes in the window before the entry that is read. journald
	// usually writes the data of an entry right before the entry.
	behind = 16 << 10
)

type window struct {
	buf  []byte
	from uint64
}

func (w *window) contains(off, n uint64) bool {
	return off >= w.from && off-w.from <= uint64(len(w.buf)) && n <= uint64(len(w.buf))-(off-w.from)
}

func (w *window) slice(off, n uint64) []byte { return w.buf[off-w.from:][:n:n] }

// fill reads size bytes at off, or fewer at the end of the file.
func (w *window) fill(r io.ReaderAt, off, size uint64) error {
	if uint64(cap(w.buf)) < size {
		w.buf = make([]byte, size)
	}
	w.from = off
	n, err := r.ReadAt(w.buf[:size], int64(off)) //nolint:gosec // callers check off
	w.buf = w.buf[:n]
	if err == io.EOF { //nolint:errorlint // io.ReaderAt returns the bare io.EOF
		return nil
	}
	return err
}

// readBytes returns n bytes at off, valid until the next call, or errShort behind the end of
// the file. Reading an entry moves the window, because entries are read in order. Reading
// another object does not, because the object may be far away.
func (f *File) readBytes(off, n uint64, entry bool) ([]byte, error) {
	if f.main.contains(off, n) {
		return f.main.slice(off, n), nil
	}
	if off > maxOffset {
		return nil, errShort
	}
	w, from, size := &f.side, off, max(n, sideSize)
	if entry {
		from = max(off, behind) - behind
		w, size = &f.main, max(off-from+n, windowSize)
	} else if w.contains(off, n) {
		return w.slice(off, n), nil
	}
	if err := w.fill(f.r, from, size); err != nil {
		return nil, err
	}
	if !w.contains(off, n) {
		return nil, errShort
	}
	return w.slice(off, n), nil
}

// dropBuffers discards the buffered bytes. free also releases the memory.
func (f *File) dropBuffers(free bool) {
	f.main.buf, f.side.buf = f.main.buf[:0], f.side.buf[:0]
	f.items = f.items[:0]
	if free {
		f.main.buf, f.side.buf, f.items, f.known = nil, nil, nil, nil
		f.knownSize, f.inflate = 0, inflater{}
	}
}
