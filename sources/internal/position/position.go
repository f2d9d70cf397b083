// Package position saves how far log files were read. A position identifies a file by
// the bytes in it, so that it is found again after it was renamed, compressed or
// copied.
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
	// MaxStreams is the largest number of streams that a Set has.
	MaxStreams = 10000
	// MaxDone is the largest number of files in Stream.Done.
	MaxDone = 16
	// MarkSize is the number of bytes before a position that identify it.
	MarkSize = 64
)

// Point is an offset in a file, with a fingerprint of the file up to it.
type Point struct {
	Name       string      `json:"n"`
	content.ID             // N is 0 if nothing was read of the file yet
	Off        int64       `json:"o"`
	Mark       content.Sum `json:"m"` // checksum of the bytes before End
	MarkN      int         `json:"k"`
	End        int64       `json:"e"` // up to which it was read; at least Off
}

// Fits reports whether a file that is not compressed has the bytes before the point.
func (p Point) Fits(r io.ReaderAt, size int64) (bool, error) {
	if size < p.End {
		return false, nil
	}
	m := make([]byte, p.MarkN)
	if _, err := r.ReadAt(m, p.End-int64(p.MarkN)); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return content.SumOf(m) == p.Mark, nil
}

func (p Point) valid() bool {
	return p.N >= 0 && p.N <= content.HeadSize && p.Off >= 0 && p.End >= p.Off &&
		p.MarkN >= 0 && p.MarkN <= MarkSize && int64(p.MarkN) <= p.End
}

// File identifies a file that was read to its end.
type File struct {
	content.ID
	Size int64 `json:"s"`
}

// Stream is the position in a stream, which is a sequence of files. It must not be
// changed after Set.Encode.
type Stream struct {
	Point
	Old   *Point `json:"old,omitempty"`   // point in the rotated file before
	Ended bool   `json:"ended,omitempty"` // the file was read to its end, and another one came
	// Done are the files that were read before this one and have later times: the
	// clock was set back.
	Done []File `json:"done,omitempty"`

	encoded []byte // as a member of a JSON object
}

func (s *Stream) valid() bool {
	bad := func(f File) bool { return f.N <= 0 || f.N > content.HeadSize }
	return s != nil && s.Point.valid() && (s.Old == nil || s.Old.valid()) &&
		len(s.Done) <= MaxDone && !slices.ContainsFunc(s.Done, bad)
}

// Set has the positions of a source.
type Set struct {
	Version int                     `json:"v"`
	At      time.Time               `json:"at"` // every line before it was read, but for those of Streams
	Losses  map[string]sources.Loss `json:"losses,omitempty"`
	Roots   map[string]string       `json:"roots,omitempty"` // identity of each root directory, by path
	Streams map[string]*Stream      `json:"streams,omitempty"`
}

const version = 1

// Encode returns the form that Decode reads, with up to MaxStreams of streams instead
// of s.Streams; it ignores nil. size is about how many there are. Thousands of streams
// cost little if most have the position of the last call, whose form is kept. Calls
// with the same streams must not run concurrently.
func (s Set) Encode(streams iter.Seq2[string, *Stream], size int) json.RawMessage {
	s.Version, s.Streams = version, nil
	b, err := json.Marshal(s)
	if err != nil {
		return nil // strings, numbers and times of a clock can always be encoded
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
			return []byte(`"":null`) // cannot happen
		}
		s.encoded = slices.Concat(k, []byte(":"), v)
	}
	return s.encoded
}

// Decode reads what Encode returned, or anything else that a state file may hold: a
// position that is not possible is an error.
func Decode(b []byte) (Set, error) {
	var s Set
	if err := json.Unmarshal(b, &s); err != nil {
		return Set{}, err
	}
	if s.Version != version {
		return Set{}, fmt.Errorf("version %d is not known", s.Version)
	}
	if len(s.Streams) > MaxStreams {
		return Set{}, errors.New("too many streams")
	}
	for key, st := range s.Streams {
		if !st.valid() {
			return Set{}, fmt.Errorf("the position in %q is not possible", key)
		}
	}
	return s, nil
}
