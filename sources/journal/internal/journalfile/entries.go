package journalfile

import (
	"errors"
	"fmt"
	"io"
	"sort"
)

// Next reads the next entry. It returns io.EOF if there is none yet. If an entry cannot be
// read, it returns a *Damage, and the next call continues behind that entry. At the end of a
// file that is being written to, Next waits and does not report damage.
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
		d = &Damage{Offset: off, Lost: 1, Err: err}
	}
	if f.bad++; f.bad > maxBad {
		d.Lost = f.h.Entries - f.passed
	}
	if !f.Final && f.h.Online && f.passed+1 == f.h.Entries {
		f.dropBuffers(false)
		return io.EOF
	}
	if d.Lost > 1 {
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

// nextOffset returns the offset of the next entry.
func (f *File) nextOffset() (uint64, error) {
	if f.slot >= f.slots {
		if err := f.nextArray(); err != nil {
			return 0, err
		}
	}
	if len(f.items) == 0 {
		if err := f.readItems(); err != nil {
			return f.array, err
		}
	}
	if off := f.items[0]; off > f.last {
		return off, nil
	}
	return f.items[0], errLoop
}

// nextArray moves to the next entry array.
func (f *File) nextArray() error {
	next := f.h.array
	lost := func(err error) error { return &Damage{Offset: next, Lost: f.h.Entries - f.passed, Err: err} }
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

// readArrayHead reads the head of an entry array, and returns the offset of the next array and
// the number of slots.
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

// readItems reads the offsets of entries from the current slot on.
func (f *File) readItems() error {
	size := f.itemSize()
	n := min(f.slots-f.slot, f.h.Entries-f.passed, sideSize/size)
	b, err := f.readBytes(f.array+arrayHead+f.slot*size, n*size, false)
	if err != nil {
		return err
	}
	f.items = f.items[:0]
	for ; len(b) > 0; b = b[size:] {
		f.items = append(f.items, f.decodeOffset(b))
	}
	return nil
}

func (f *File) decodeOffset(b []byte) uint64 {
	if f.h.compact {
		return uint64(le.Uint32(b))
	}
	return le.Uint64(b)
}

// readObject reads the first bytes of an object. kind is the expected kind. entry has the
// meaning that it has in readBytes.
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

// readEntry reads the entry at off into e.
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
			// An entry that cannot be read gets the result of the next readable one.
			for k := uint64(i); k < min(n, uint64(i)+maxSkip); k++ { //nolint:gosec // i is not negative
				if f.readSlot(k, &e) == nil {
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

// readSlot reads the entry at index k of the current array.
func (f *File) readSlot(k uint64, e *Entry) error {
	size := f.itemSize()
	b, err := f.readBytes(f.array+arrayHead+k*size, size, false)
	if err != nil {
		return err
	}
	return f.readEntry(f.decodeOffset(b), e)
}
