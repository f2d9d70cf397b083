package tail

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"crowsnest/sources/internal/content"
	"crowsnest/sources/internal/gunzip"
	"crowsnest/sources/internal/logname"
	"crowsnest/sources/internal/position"
)

const (
	blockSize = 256 << 10 // size of a block of whole lines
	keepSize  = 64 << 10  // bytes of a longer line that are stored
	slack     = 64        // bytes behind a block that the matcher's wide loads may touch

	markSize = position.MarkSize
	maxMark  = 1 << 10 // bytes before a position in which the whole last line is looked for
)

// errChanged means that the bytes before the position changed: the file was
// truncated or rewritten.
var errChanged = errors.New("truncated or rewritten")

// file is one log file: the one that is read, or one that comes after it.
type file struct {
	name  string
	order logname.Order
	id    content.ID
	fi    fs.FileInfo // as last seen

	f  *os.File       // nil if not open
	gz *gunzip.Reader // reader of a compressed file

	off  int64  // up to which it was handed on
	mark []byte // the bytes before off, at least markSize of them if there are
	sure bool   // mark is unique: it contains a timestamped line
	win  []byte // mark and what was read behind it; valid until the next read
	pos  int    // index of off in win

	quiet fs.FileInfo // before a read that ended at the end of the file
	rest  int64       // bytes behind off at that time: a line without its end
	shown bool        // the rest was matched unfinished
	long  *longLine
	nul   bool // off is within a region of NUL bytes
	torn  bool // the line behind it began before it

	finished bool // compressed, and read to its end: nothing more comes
	broken   bool // compressed, and damaged: that is counted
}

// longLine is a line that does not fit a block: its start is kept.
type longLine struct {
	start int64 // where the line starts in the file
	size  int64 // so far
	kept  []byte
}

// at moves to off and reads the bytes before it. The caller ensures that the file is
// open and is the right one.
func (f *file) at(off int64) error {
	f.off, f.mark, f.sure, f.win, f.pos = off, nil, false, nil, 0
	f.quiet, f.rest, f.shown, f.long, f.nul = nil, 0, false, nil, false
	if f.gz != nil {
		return f.skip(off)
	}
	if off == 0 {
		return nil
	}
	m := make([]byte, min(off, markSize))
	if _, err := f.f.ReadAt(m, off-int64(len(m))); err != nil {
		return changed(fmt.Sprintf("read before %d", off), err)
	}
	f.mark = m
	return nil
}

// skip is at for a compressed file.
func (f *file) skip(off int64) error {
	err := f.gz.Open(io.NewSectionReader(f.f, 0, 1<<62))
	if err != nil {
		return err
	}
	if f.win, err = f.gz.Skip(off); err != nil {
		return changed("decompress", err)
	}
	f.mark, f.pos = bytes.Clone(f.win), len(f.win)
	return nil
}

// changed is the error of bytes that are not there any more, unless the system
// failed to read them.
func changed(doing string, err error) error {
	if isIO(err) {
		return err
	}
	return fmt.Errorf("%s: %w", doing, errChanged)
}

// read returns up to a block of the bytes at off, and whether the file ends
// behind them for now.
// errChanged: what lies before off is not what was read there.
func (f *file) read(buf []byte) (data []byte, end bool, err error) {
	if f.gz != nil {
		f.win, f.pos, end, err = f.gz.Read(f.pos)
		return f.win[f.pos:], end, err
	}
	n, err := f.f.ReadAt(buf[:len(f.mark)+blockSize], f.off-int64(len(f.mark)))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	if n < len(f.mark) || !bytes.Equal(buf[:len(f.mark)], f.mark) {
		return nil, false, errChanged
	}
	f.win, f.pos = buf[:n], len(f.mark)
	return buf[f.pos:n], err != nil, nil
}

// advance moves off by n of the bytes that read returned.
func (f *file) advance(n int) {
	f.pos += n
	f.off += int64(n)
	f.rest, f.shown = 0, false
	f.setMark(f.win[max(0, f.pos-maxMark):f.pos])
}

// setMark keeps what is compared at the next read, of the bytes before off: the
// last line where it has its time to fractions of a second, which no other file
// has at the same place.
func (f *file) setMark(read []byte) {
	line := content.LastLine(read)
	t, ok := content.LineTime(read[line:])
	if f.sure = ok && t.Nanosecond() != 0; !f.sure {
		line = len(read)
	}
	f.mark = append(f.mark[:0], read[min(line, max(0, len(read)-markSize)):]...)
}

// learnFromRead completes the identity from what was just read, if that is the
// head: the file may be truncated before it is read again.
func (f *file) learnFromRead() {
	if f.id.N < content.HeadSize && f.pos > 0 && f.off == int64(f.pos) {
		f.id = content.IDOf(f.win[:min(content.HeadSize, len(f.win))])
		return
	}
	f.learn()
}

// learn completes the identity of a file that was shorter than a head.
func (f *file) learn() {
	if f.id.N >= content.HeadSize || f.f == nil || f.gz != nil {
		return
	}
	// It may have been truncated meanwhile: then it has to stay what it was.
	if h, err := content.ReadHead(f.f, false); err == nil && len(h) > f.id.N && (f.id.N == 0 || f.id.Is(h)) {
		f.id = content.IDOf(h)
	}
}

// looksLike reports whether an open file still starts as f did.
func (f *file) looksLike(h *os.File) bool {
	if f.id.N == 0 {
		return true
	}
	b, err := content.ReadHead(h, f.order.GZ)
	return err != nil || f.id.Is(b)
}

// rewritten reports whether a file that was read to its end and changed since no
// longer starts as it did. The bytes before the position, which a read compares, show
// that only if they are sure: lines often end alike.
func (f *file) rewritten() bool {
	if f.sure || f.quiet == nil || f.f == nil || f.gz != nil || f.id.N == 0 {
		return false
	}
	var b [content.HeadSize]byte
	n, err := f.f.ReadAt(b[:f.id.N], 0)
	return (err == nil || errors.Is(err, io.EOF)) && !f.id.Is(b[:n])
}

// idle reports whether nothing happened to the file since a read that reached its
// end.
func (f *file) idle() bool {
	return f.quiet != nil && f.quiet.Size() == f.fi.Size() && f.quiet.ModTime().Equal(f.fi.ModTime())
}

// fresh reports whether the file was written to so recently that more may come after
// a rotation. A time ahead of the clock is fresh.
func (f *file) fresh(now time.Time) bool {
	return !f.order.GZ && now.Sub(f.fi.ModTime()) < linger
}

// point returns off as a position that survives restarts.
func (f *file) point(off int64) position.Point {
	mark := f.mark[max(0, len(f.mark)-markSize):]
	return position.Point{Name: f.name, ID: f.id, Off: off, Mark: content.SumOf(mark), MarkN: len(mark), End: f.off}
}
