package tail

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"
)

const (
	headSize = 256     // bytes of a file's head that identify it; with CRI the first time stamp is in them
	markSize = 64      // bytes before a position that tell whether it is still valid
	maxMark  = 1 << 10 // and as many to have the whole last line in them
)

// sum is a shortened SHA-256. It is written to the state as hex: the bytes
// themselves may hold secrets.
type sum [12]byte

func sumOf(b []byte) (s sum) {
	h := sha256.Sum256(b)
	copy(s[:], h[:])
	return s
}

func (s sum) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(s[:])), nil }

func (s *sum) UnmarshalText(b []byte) error {
	if len(b) != 2*len(s) {
		return errors.New("hash of the wrong length")
	}
	_, err := hex.Decode(s[:], b)
	return err
}

// ident identifies a file by the head that it had when it was identified.
type ident struct {
	n     int // bytes of the head; 0: not identified yet
	sum   sum
	first int64 // time of the first line in Unix nanoseconds; 0: unknown
}

func identOf(head []byte) ident {
	return ident{n: len(head), sum: sumOf(head), first: firstTime(head)}
}

// is reports whether a file with this head is the identified one.
func (id ident) is(head []byte) bool {
	return id.n > 0 && len(head) >= id.n && sumOf(head[:id.n]) == id.sum
}

func firstTime(head []byte) int64 {
	if t, ok := lineTime(head); ok {
		return t.UnixNano()
	}
	return 0
}

// lineTime reads the time from the envelope of the line that b begins with. The
// line may be cut off.
func lineTime(b []byte) (time.Time, bool) {
	if nl := bytes.IndexByte(b, '\n'); nl >= 0 {
		b = b[:nl]
	}
	if len(b) > 0 && b[0] == '{' { // docker-json: {"log":"...","stream":"...","time":"..."}
		const key = `,"time":"`
		i := bytes.LastIndex(b, []byte(key))
		if i < 0 {
			return time.Time{}, false
		}
		b = b[i+len(key):]
		if i = bytes.IndexByte(b, '"'); i < 0 {
			return time.Time{}, false
		}
		return parseTime(b[:i])
	}
	i := bytes.IndexByte(b, ' ')
	if i < 0 || !bytes.HasPrefix(b[i:], []byte(" std")) {
		return time.Time{}, false
	}
	return parseTime(b[:i])
}

func parseTime(b []byte) (time.Time, bool) {
	if len(b) < len("2006-01-02T15:04:05Z") || len(b) > len(time.RFC3339Nano)+4 {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil || t.Year() < 1980 || t.Year() > 2200 {
		return time.Time{}, false // no time that a file can be placed by
	}
	return t, true
}

// lastTime reads the time of the last line of a block of whole lines.
func lastTime(block []byte) (time.Time, bool) {
	b := bytes.TrimSuffix(block, []byte("\n"))
	return lineTime(b[bytes.LastIndexByte(b, '\n')+1:])
}

// head is the start of a file, and the state of the file when it was read.
type head struct {
	fi    fs.FileInfo // when it was read
	bytes []byte
	first int64
	size  int64 // of the whole file, decompressed
}

// current reports whether the head cannot have changed since it was read.
func (h *head) current(fi fs.FileInfo) bool {
	return h != nil && unchanged(h.fi, fi)
}

// unchanged reports whether a file was not written to, and not replaced, in between.
func unchanged(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// fullSize returns the length of a file, decompressed: a .gz ends with it.
func fullSize(f io.ReaderAt, size int64, gz bool) int64 {
	var b [4]byte
	if !gz {
		return size
	}
	if _, err := f.ReadAt(b[:], size-int64(len(b))); err != nil {
		return 0
	}
	return int64(binary.LittleEndian.Uint32(b[:]))
}

// readHead reads a file's head, decompressed.
func readHead(f io.ReaderAt, gz bool) ([]byte, error) {
	r := io.Reader(io.NewSectionReader(f, 0, 1<<62))
	if gz {
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		r = z
	}
	b := make([]byte, headSize)
	n, err := io.ReadFull(r, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return b[:n:n], err
}
