package rangeread

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/go-json-experiment/json/jsontext"

	"crowsnest/sources/internal/jsonwalk"
)

// Pair is the name and value of a label or of a field of an entry.
type Pair struct{ Name, Value []byte }

// Entry is one line of a response. Its byte slices refer to the memory of the response body.
type Entry struct {
	Time   int64 // timestamp of the entry, in ns since 1970
	Stream int   // index of the stream in the response
	Line   []byte
	Meta   []Pair // fields of the entry that are not part of its stream, sorted by name
}

// Series is one stream of a response.
type Series struct {
	Labels []Pair // labels, sorted by name
	key    []byte // encoding of the labels, which is equal for equal labels
}

// Answer is the response to one query. Its memory is reused for the next response.
type Answer struct {
	Body    []byte
	Streams []Series
	Entries []Entry // entries ordered by time; entries with equal times stay in the order of the response
	Count   int     // number of entries in the response, including unreadable ones
	Bad     int     // number of unreadable entries
	// Cut is the time of the entry at which the body breaks off. Zero means that the body is complete.
	Cut     int64
	Warning string

	pairs []Pair
	key   []byte
	text  []byte // unescaped strings of the body
}

// Reset removes the response, and keeps the memory unless it is large.
func (a *Answer) Reset() {
	if cap(a.Body)+cap(a.text) > 2*maxKeptBody {
		a.Body, a.text = nil, nil
	}
	*a = Answer{Body: a.Body[:0], Streams: a.Streams[:0], Entries: a.Entries[:0], pairs: a.pairs[:0], key: a.key[:0], text: a.text[:0]}
}

// ReadText consumes the next value, and returns it if it is a string.
func (a *Answer) ReadText(d *jsontext.Decoder) (text []byte, ok bool, err error) {
	if d.PeekKind() != '"' {
		return nil, false, d.SkipValue()
	}
	value, err := d.ReadValue()
	if err != nil {
		return nil, false, err
	}
	start := len(a.text)
	a.text, _ = jsontext.AppendUnquote(a.text, value) // ignore the error, because invalid UTF-8 is replaced
	return a.text[start:len(a.text):len(a.text)], true, nil
}

// ReadPairs parses an object of strings, and sorts it by name. ok is false if the next value is not such an object.
func (a *Answer) ReadPairs(d *jsontext.Decoder) (pairs []Pair, ok bool, err error) {
	start := len(a.pairs)
	ok = d.PeekKind() == '{'
	err = jsonwalk.Members(d, func(name string) error {
		value, isText, err := a.ReadText(d)
		if ok = ok && isText; ok {
			a.pairs = append(a.pairs, Pair{[]byte(name), value})
		}
		return err
	})
	if err != nil || !ok {
		a.pairs = a.pairs[:start]
		return nil, false, err
	}
	pairs = a.pairs[start:len(a.pairs):len(a.pairs)]
	slices.Reverse(pairs) // the last member with a name counts
	slices.SortStableFunc(pairs, func(x, y Pair) int { return bytes.Compare(x.Name, y.Name) })
	return slices.CompactFunc(pairs, func(x, y Pair) bool { return bytes.Equal(x.Name, y.Name) }), true, nil
}

func appendPair(b []byte, p Pair) []byte {
	b = binary.AppendUvarint(b, uint64(len(p.Name)))
	b = append(b, p.Name...)
	b = binary.AppendUvarint(b, uint64(len(p.Value)))
	return append(b, p.Value...)
}

// hashEntry returns a hash that identifies an entry. It uses the tenant, stream, time, line and
// fields. The hash is the same after a restart.
func (a *Answer) hashEntry(h *xxhash.Digest, tenant string, e *Entry) uint64 {
	var n [8]byte
	put := func(b []byte) {
		binary.LittleEndian.PutUint64(n[:], uint64(len(b)))
		_, _ = h.Write(n[:])
		_, _ = h.Write(b)
	}
	h.Reset()
	_, _ = h.WriteString(tenant)
	put(a.Streams[e.Stream].key)
	binary.LittleEndian.PutUint64(n[:], uint64(e.Time))
	_, _ = h.Write(n[:])
	put(e.Line)
	for _, p := range e.Meta {
		put(p.Name)
		put(p.Value)
	}
	return h.Sum64()
}

// SetStream sets the labels of the stream with an index, and removes the streams after it. The
// labels must be sorted by name.
func (a *Answer) SetStream(index int, labels []Pair) {
	start := len(a.key)
	for _, p := range labels {
		a.key = appendPair(a.key, p)
	}
	a.Streams = append(a.Streams[:index], Series{Labels: labels, key: a.key[start:len(a.key):len(a.key)]})
}

// Sort sorts the entries by time.
func (a *Answer) Sort() {
	slices.SortStableFunc(a.Entries, func(x, y Entry) int { return cmp.Compare(x.Time, y.Time) })
}
