package journalfile

import "io"

const (
	windowSize = 128 << 10
	sideSize   = 4 << 10
	// behind is the distance between the start of the window and the entry that is read. The
	// data of an entry are usually written right before it.
	behind = 16 << 10
)

// window is a part of a file that is in memory.
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

// readBytes returns n bytes at off, which are valid until the next call. It returns errShort
// behind the end of the file. entry means that the bytes belong to an entry. Entries are read
// in order and move the window. Other objects may be far away and do not move it.
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
