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
	keepSize  = 64 << 10  // number of bytes that are kept of a line that is longer than a block
	slack     = 64        // number of bytes after a block that the matcher may load but does not use

	markSize = position.MarkSize
	maxMark  = 1 << 10 // largest number of bytes before a position in which the last line is searched
)

// errChanged means that the bytes before the position have changed, because the file was
// truncated or rewritten.
var errChanged = errors.New("truncated or rewritten")

// file is a log file that is being read or will be read later.
type file struct {
	name  string
	order logname.Order
	id    content.ID
	fi    fs.FileInfo // information about the file when it was last examined

	f  *os.File       // open file; nil if the file is closed
	gz *gunzip.Reader // decompressor; nil for a file that is not compressed

	offset    int64  // offset in the file up to which lines were passed on
	lastBytes []byte // the last bytes before offset; at least markSize bytes unless offset is smaller
	sure      bool   // whether no other file has the same mark, because the mark contains a line with a precise time
	win       []byte // mark followed by the bytes after it; valid until the next read
	pos       int    // index of offset in win

	// endState is information about the file before the last read that reached the end. It is nil if data was read
	// since.
	endState fs.FileInfo
	rest     int64 // length of the unfinished line at offset
	shown    bool  // whether the unfinished line was matched before its end was written
	long     *longLine
	nul      bool // whether offset is within a hole, a region of NUL bytes
	torn     bool // whether the bytes after the hole belong to a line that began before the hole

	finished bool // whether a compressed file was read to its end
	broken   bool // whether a compressed file is damaged and was counted as damaged
}

// longLine is a line that is too long for a block. Only its start is kept.
type longLine struct {
	start  int64 // offset of the line in the file
	size   int64 // number of bytes of the line that were read so far
	prefix []byte
}

// seek moves to off and reads the bytes before off, which become the mark. The right file must
// be open.
func (f *file) seek(off int64) error {
	f.offset, f.lastBytes, f.sure, f.win, f.pos = off, nil, false, nil, 0
	f.endState, f.rest, f.shown, f.long, f.nul = nil, 0, false, nil, false
	if f.gz != nil {
		if err := f.gz.Open(io.NewSectionReader(f.f, 0, 1<<62)); err != nil {
			return err
		}
		win, err := f.gz.Skip(off)
		if err != nil {
			return changedError("decompress", err)
		}
		f.win, f.lastBytes, f.pos = win, bytes.Clone(win), len(win)
		return nil
	}
	if off == 0 {
		return nil
	}
	m := make([]byte, min(off, markSize))
	if _, err := f.f.ReadAt(m, off-int64(len(m))); err != nil {
		return changedError(fmt.Sprintf("read before %d", off), err)
	}
	f.lastBytes = m
	return nil
}

// changedError returns errChanged if the file has changed. It returns err if the system failed
// to read.
func changedError(doing string, err error) error {
	if isIO(err) {
		return err
	}
	return fmt.Errorf("%s: %w", doing, errChanged)
}

// read returns up to one block of bytes at offset, and whether the block reaches the current
// end of the file. It returns errChanged if the bytes before offset have changed since they
// were read.
func (f *file) read(buf []byte) (data []byte, end bool, err error) {
	if f.gz != nil {
		f.win, f.pos, end, err = f.gz.Read(f.pos)
		return f.win[f.pos:], end, err
	}
	n, err := f.f.ReadAt(buf[:len(f.lastBytes)+blockSize], f.offset-int64(len(f.lastBytes)))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	if n < len(f.lastBytes) || !bytes.Equal(buf[:len(f.lastBytes)], f.lastBytes) {
		return nil, false, errChanged
	}
	f.win, f.pos = buf[:n], len(f.lastBytes)
	return buf[f.pos:n], err != nil, nil
}

func (f *file) advance(n int) {
	f.pos += n
	f.offset += int64(n)
	f.rest, f.shown = 0, false
	f.setMark(f.win[max(0, f.pos-maxMark):f.pos])
}

// setMark keeps the bytes before offset, which the next read compares. They include the last
// line if its time has fractions of a second, because no other file has the same line at the
// same place.
func (f *file) setMark(read []byte) {
	line := content.LastLine(read)
	t, ok := content.LineTime(read[line:])
	if f.sure = ok && t.Nanosecond() != 0; !f.sure {
		line = len(read)
	}
	f.lastBytes = append(f.lastBytes[:0], read[min(line, max(0, len(read)-markSize)):]...)
}

// learnFromRead completes the file's identity if the bytes that were just read are the start
// of the file. It does so immediately, because the file may be truncated before the next read.
func (f *file) learnFromRead() {
	if f.id.N < content.HeadSize && f.pos > 0 && f.offset == int64(f.pos) {
		f.id = content.IDOf(f.win[:min(content.HeadSize, len(f.win))])
		return
	}
	f.completeID()
}

func (f *file) completeID() {
	if f.id.N >= content.HeadSize || f.f == nil || f.gz != nil {
		return
	}
	// If the file was truncated in the meantime, its identity stays as it is.
	if h, err := content.ReadHead(f.f, false); err == nil && len(h) > f.id.N && (f.id.N == 0 || f.id.Is(h)) {
		f.id = content.IDOf(h)
	}
}

// isRewritten reports whether a file that was read to its end has a different head than
// before. If the mark is unique, the head need not be compared, because the next read compares
// the mark.
func (f *file) isRewritten() bool {
	if f.sure || f.endState == nil || f.f == nil || f.gz != nil || f.id.N == 0 {
		return false
	}
	var b [content.HeadSize]byte
	n, err := f.f.ReadAt(b[:f.id.N], 0)
	return (err == nil || errors.Is(err, io.EOF)) && !f.id.Is(b[:n])
}

// isFresh reports whether the file was written to recently, so that further writes are
// possible even after a rotation. A time in the future counts as recent.
func (f *file) isFresh(now time.Time) bool {
	return !f.order.GZ && now.Sub(f.fi.ModTime()) < linger
}

func (f *file) pointAt(off int64) position.Point {
	mark := f.lastBytes[max(0, len(f.lastBytes)-markSize):]
	return position.Point{Name: f.name, ID: f.id, Offset: off, Checksum: content.SumOf(mark), MarkN: len(mark), End: f.offset}
}
