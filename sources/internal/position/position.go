// Package position saves how far log files were read. A position identifies a file by bytes of the content. A file is
// therefore found again after a rename, a compression or a copy.
package position

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"crowsnest/sources"
	"crowsnest/sources/internal/content"
)

const (
	// MaxStreams is the largest number of streams in a Set.
	MaxStreams = 10000
	// MaxDone is the largest number of files in Stream.ReadFiles.
	MaxDone = 16
	// MarkSize is the largest number of bytes before a position whose checksum is saved with the position.
	MarkSize = 64
)

// Point is an offset in a file, with a fingerprint of the file up to the offset.
type Point struct {
	Name       string      `json:"n"`
	content.ID             // identity of the file; N is zero if nothing of the file was read yet
	Offset     int64       `json:"o"`
	Checksum   content.Sum `json:"m"` // checksum of the MarkN bytes before End
	MarkN      int         `json:"k"`
	End        int64       `json:"e"` // offset up to which the file was read; at least Offset
}

// IsPrefixOf reports whether an uncompressed file still has the bytes before the point.
func (p Point) IsPrefixOf(r io.ReaderAt, size int64) (bool, error) {
	if size < p.End {
		return false, nil
	}
	m := make([]byte, p.MarkN)
	if _, err := r.ReadAt(m, p.End-int64(p.MarkN)); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return content.SumOf(m) == p.Checksum, nil
}

func (p Point) isValid() bool {
	return p.N >= 0 && p.N <= content.HeadSize && p.Offset >= 0 && p.End >= p.Offset &&
		p.MarkN >= 0 && p.MarkN <= MarkSize && int64(p.MarkN) <= p.End
}

// File identifies a file that was read to its end.
type File struct {
	content.ID
	Size int64 `json:"s"`
}

// Stream is the position in a stream, which is a sequence of files. It must not be changed after a call of Set.Encode.
type Stream struct {
	Point
	RotatedPoint *Point `json:"old,omitempty"`   // position in the previous rotated file, which may still grow
	Ended        bool   `json:"ended,omitempty"` // whether the file was read to its end and a newer file exists
	// ReadFiles are files that were read before this one although their times are later, because the
	// clock was set back.
	ReadFiles []File `json:"done,omitempty"`

	encoded []byte // encoded form, as a member of a JSON object
}

func (s *Stream) isValid() bool {
	bad := func(f File) bool { return f.N <= 0 || f.N > content.HeadSize }
	return s != nil && s.Point.isValid() && (s.RotatedPoint == nil || s.RotatedPoint.isValid()) &&
		len(s.ReadFiles) <= MaxDone && !slices.ContainsFunc(s.ReadFiles, bad)
}

// Set has the positions of a source.
type Set struct {
	Version  int                     `json:"v"`
	ReadUpTo time.Time               `json:"at"` // time before which every line was read, except lines of Streams
	Losses   map[string]sources.Loss `json:"losses,omitempty"`
	Roots    map[string]string       `json:"roots,omitempty"` // identity of each root directory; the key is the path
	Streams  map[string]*Stream      `json:"streams,omitempty"`
}

const version = 1

// Encode returns the JSON that Decode reads. It encodes streams instead of s.Streams, up to MaxStreams of them, and
// omits nil ones. size is the approximate number of streams. The encoded form of a stream is kept, so unchanged streams
// cost little. Calls with the same streams must not run concurrently.
func (s Set) Encode(streams iter.Seq2[string, *Stream], size int) json.RawMessage {
	s.Version, s.Streams = version, nil
	b, err := json.Marshal(s)
	if err != nil {
		return nil // strings, numbers and times from a clock can always be encoded
	}
	b = slices.Grow(b, 300*min(size, MaxStreams))
	b = append(b[:len(b)-1], `,"streams":{`...)
	n := 0
	for key, st := range streams {
		if st == nil {
			continue
		}
		if n++; n > MaxStreams {
			break
		}
		if n > 1 {
			b = append(b, ',')
		}
		b = append(b, st.encode(key)...)
	}
	return append(b, "}}"...)
}

func (s *Stream) encode(key string) []byte {
	if s.encoded == nil {
		k, err := json.Marshal(key)
		v, err2 := json.Marshal(s)
		if err != nil || err2 != nil {
			return []byte(`"":null`) // impossible, because strings, numbers and times can always be encoded
		}
		s.encoded = slices.Concat(k, []byte(":"), v)
	}
	return s.encoded
}

// Decode decodes the result of Encode. It returns an error if a position is impossible,
// because b comes from a state file and may contain anything.
func Decode(b []byte) (Set, error) {
	var s Set
	if err := json.Unmarshal(b, &s); err != nil {
		return Set{}, err
	}
	if s.Version != version {
		return Set{}, fmt.Errorf("version %d is unknown", s.Version)
	}
	if len(s.Streams) > MaxStreams {
		return Set{}, errors.New("too many streams")
	}
	for key, st := range s.Streams {
		if !st.isValid() {
			return Set{}, fmt.Errorf("the saved position in %q is invalid", key)
		}
	}
	return s, nil
}
