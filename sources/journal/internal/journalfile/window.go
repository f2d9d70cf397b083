package journalfile

import "io"

const (
	windowSize = 128 << 10
	sideSize   = 4 << 10
	// behind is how far before an entry the window begins: the data of an entry are
	// written right before it.
	behind = 16 << 10
)

// window is a part of a file in memory.
type window struct {
	buf  []byte
	from uint64
}

func (w *window) has(off, n uint64) bool {
	return off >= w.from && off-w.from <= uint64(len(w.buf)) && n <= uint64(len(w.buf))-(off-w.from)
}

func (w *window) slice(off, n uint64) []byte { return w.buf[off-w.from:][:n:n] }

// fill reads size bytes from off, or fewer at the end of the file.
func (w *window) fill(r io.ReaderAt, off, size uint64) error {
	if uint64(cap(w.buf)) < size {
		w.buf = make([]byte, size)
	}
	w.from = off
	n, err := r.ReadAt(w.buf[:size], int64(off)) //nolint:gosec // callers bound off
	w.buf = w.buf[:n]
	if err == io.EOF { //nolint:errorlint // io.ReaderAt returns it as it is
		return nil
	}
	return err
}

// bytes returns n bytes at off, valid until the next call, or errShort behind the end of
// the file. Entries are read in order, through the window; other objects may be far
// behind and do not move it.
func (f *File) bytes(off, n uint64, entry bool) ([]byte, error) {
	if f.main.has(off, n) {
		return f.main.slice(off, n), nil
	}
	if off > maxOffset {
		return nil, errShort
	}
	w, from, size := &f.side, off, max(n, sideSize)
	if entry {
		from = max(off, behind) - behind
		w, size = &f.main, max(off-from+n, windowSize)
	} else if w.has(off, n) {
		return w.slice(off, n), nil
	}
	if err := w.fill(f.r, from, size); err != nil {
		return nil, err
	}
	if !w.has(off, n) {
		return nil, errShort
	}
	return w.slice(off, n), nil
}

// forget drops what was read. free also frees the memory.
func (f *File) forget(free bool) {
	f.main.buf, f.side.buf = f.main.buf[:0], f.side.buf[:0]
	f.items = f.items[:0]
	if free {
		f.main.buf, f.side.buf, f.items, f.known = nil, nil, nil, nil
		f.knownSize, f.inflate = 0, inflater{}
	}
}
