// Package content identifies log files by their content, and reads the times of their lines in
// the envelopes of CRI and docker-json.
package content

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"time"
)

// HeadSize is the number of bytes at the start of a file that identify it. In CRI logs they
// contain the first timestamp.
const HeadSize = 256

// searchSize is the number of bytes that a search for a time reads at once.
const searchSize = 64 << 10

// Sum is a shortened SHA-256. Saved state contains the sum, in hex, and not the bytes, because they may hold secrets.
type Sum [12]byte

// SumOf returns the sum of b.
func SumOf(b []byte) (s Sum) {
	h := sha256.Sum256(b)
	copy(s[:], h[:])
	return s
}

// MarshalText implements encoding.TextMarshaler.
func (s Sum) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(s[:])), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Sum) UnmarshalText(b []byte) error {
	if len(b) != 2*len(s) {
		return errors.New("hash of the wrong length")
	}
	_, err := hex.Decode(s[:], b)
	return err
}

// ID identifies a file by its first bytes (the head) at the time when it was identified.
type ID struct {
	Sum           Sum   `json:"h"`
	N             int   `json:"l"`           // number of bytes of the head; zero if the file is not identified yet
	FirstLineTime int64 `json:"t,omitempty"` // time of the first line in Unix nanoseconds; zero if unknown
}

// IDOf returns the identity of a file that begins with head.
func IDOf(head []byte) ID { return ID{N: len(head), Sum: SumOf(head), FirstLineTime: FirstTime(head)} }

// Is reports whether the identified file starts with this head.
func (id ID) Is(head []byte) bool {
	return id.N > 0 && len(head) >= id.N && SumOf(head[:id.N]) == id.Sum
}

// FirstTime returns the time of the first line in Unix nanoseconds, or 0 if it has no time.
func FirstTime(head []byte) int64 {
	if t, ok := LineTime(head); ok {
		return t.UnixNano()
	}
	return 0
}

// LineTime reads the time that the container runtime wrote in the first line of b (its envelope). The line may be cut
// off.
func LineTime(b []byte) (time.Time, bool) {
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
		return time.Time{}, false // the time is implausible, so files must not be ordered by it
	}
	return t, true
}

// LastLine returns the index at which the last line of b starts. b may end with a newline.
func LastLine(b []byte) int { return bytes.LastIndexByte(bytes.TrimSuffix(b, []byte("\n")), '\n') + 1 }

// FullSize returns the decompressed length of a file. It reads the length from the end of a .gz file.
func FullSize(f io.ReaderAt, size int64, gz bool) int64 {
	var b [4]byte
	if !gz {
		return size
	}
	if _, err := f.ReadAt(b[:], size-int64(len(b))); err != nil {
		return 0
	}
	return int64(binary.LittleEndian.Uint32(b[:]))
}

// ReadHead reads the first HeadSize bytes of a file, decompressed.
func ReadHead(f io.ReaderAt, gz bool) ([]byte, error) {
	r := io.Reader(io.NewSectionReader(f, 0, 1<<62))
	if gz {
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		r = z
	}
	b := make([]byte, HeadSize)
	n, err := io.ReadFull(r, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return b[:n:n], err
}

// LineStart returns the offset after the last newline before offset size.
func LineStart(r io.ReaderAt, size int64) int64 {
	b := make([]byte, min(size, searchSize))
	n, _ := r.ReadAt(b, size-int64(len(b)))
	if i := bytes.LastIndexByte(b[:n], '\n'); i >= 0 {
		return size - int64(len(b)) + int64(i) + 1
	}
	return size
}

// Search returns the start of a line before which all lines are older than from. It allows for
// lines of stdout and stderr that are slightly out of order.
func Search(r io.ReaderAt, size int64, from time.Time) int64 {
	from = from.Add(-time.Second)
	b := make([]byte, searchSize)
	lo, hi := int64(0), size // lo is the start of a line that is older than from
	for hi-lo > searchSize {
		mid := lo + (hi-lo)/2
		n, _ := r.ReadAt(b, mid)
		at, t, ok := firstTimed(b[:n])
		if ok && t.Before(from) && mid+at > lo {
			lo = mid + at
			continue
		}
		hi = mid // the line is not older than from or has no time, so the search continues before it
	}
	for lo < size {
		n, _ := r.ReadAt(b, lo)
		at := int64(0)
		for {
			nl := bytes.IndexByte(b[at:n], '\n')
			if t, ok := LineTime(b[at:n]); nl < 0 || ok && !t.Before(from) {
				break
			}
			at += int64(nl) + 1
		}
		if at == 0 || lo+at >= hi {
			return lo + at
		}
		lo += at
	}
	return lo
}

// firstTimed returns the offset and the time of the first line in b that has a time.
func firstTimed(b []byte) (int64, time.Time, bool) {
	for at := 0; ; {
		nl := bytes.IndexByte(b[at:], '\n')
		if nl < 0 {
			return 0, time.Time{}, false
		}
		at += nl + 1
		if t, ok := LineTime(b[at:]); ok {
			return int64(at), t, true
		}
	}
}
