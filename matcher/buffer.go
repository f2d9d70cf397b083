package matcher

import "unsafe"

// Buffer is memory for the hits of one call at a time. The zero value is ready.
// It is not safe for concurrent use.
type Buffer struct {
	hits   []Hit
	block  []byte // block of the current call; texts inside it are not copied
	text   []byte // the newest chunk of other lines and values
	values []string

	withoutIDs bool

	everyLine bool
	lines     []Line

	watch      bool // reports whether lines are searched for unmatched errors
	searched   int
	complaints []Complaint
}

// NewBufferWithoutIDs returns a buffer. The hits of calls that use it have no ID, which takes
// time to compute.
func NewBufferWithoutIDs() *Buffer { return &Buffer{withoutIDs: true} }

// Bounds of the chunks of a Buffer.
const (
	minChunk = 512
	maxChunk = 512 << 10
	maxHits  = 4096 // hits whose memory is reused by the next call
)

// reset frees the memory for the next call.
func (b *Buffer) reset() {
	clear(b.hits) // drop references for the garbage collector
	clear(b.values)
	clear(b.complaints)
	clear(b.lines)
	b.lines = b.lines[:0]
	b.hits, b.text, b.values, b.complaints, b.block = b.hits[:0], b.text[:0], b.values[:0], b.complaints[:0], nil
	if cap(b.complaints) > maxHits {
		b.complaints = nil
	}
	if cap(b.hits) > maxHits {
		b.hits = nil
	}
	if cap(b.values) > 4*maxHits {
		b.values = nil
	}
}

// drop drops the complaints and lines of the last call.
func (b *Buffer) drop() {
	if b != nil {
		b.complaints, b.lines = b.complaints[:0], b.lines[:0]
	}
}

// wantsLines reports whether the buffer keeps every line.
func (b *Buffer) wantsLines() bool { return b != nil && b.everyLine }

// textOf returns a text that is valid for as long as the hits are: in the memory of the
// block if it is part of that, else in that of the buffer.
func (b *Buffer) textOf(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(text)))
	if at-uintptr(unsafe.Pointer(unsafe.SliceData(b.block))) < uintptr(len(b.block)) {
		return unsafe.String(unsafe.SliceData(text), len(text))
	}
	if cap(b.text)-len(b.text) < len(text) {
		// Strings that point to the chunk before keep it.
		b.text = make([]byte, 0, max(len(text), min(2*cap(b.text), maxChunk), minChunk))
	}
	n := len(b.text)
	b.text = append(b.text, text...)
	return unsafe.String(&b.text[n], len(text))
}

// strings returns n empty strings.
func (b *Buffer) strings(n int) []string {
	if cap(b.values)-len(b.values) < n {
		b.values = make([]string, 0, max(n, 2*cap(b.values)))
	}
	from := len(b.values)
	b.values = b.values[:from+n]
	return b.values[from : from+n : from+n]
}

// add appends a hit, which the caller fills.
func (b *Buffer) add(expected int) *Hit {
	if b.hits == nil {
		b.hits = make([]Hit, 0, min(max(1, expected), maxHits))
	}
	b.hits = append(b.hits, Hit{})
	return &b.hits[len(b.hits)-1]
}
