package matcher

import "unsafe"

// Buffer is memory for the hits of one call at a time. The zero value is ready.
// It is not safe for concurrent use.
type Buffer struct {
	hits   []Hit
	block  []byte // block of the current call; hits may refer to texts in the block without copying them
	text   []byte // newest chunk of memory for copied texts
	values []string

	withoutIDs bool

	watch      bool // whether lines that no rule matches are searched for complaints
	everyLine  bool // whether every line that no rule matches counts as a complaint
	searched   int
	complaints []Complaint
}

// NewBufferWithoutIDs returns a buffer for calls whose hits need no ID, because computing an ID
// takes time.
func NewBufferWithoutIDs() *Buffer { return &Buffer{withoutIDs: true} }

// Limits of the memory of a Buffer.
const (
	minChunk = 512
	maxChunk = 512 << 10
	maxHits  = 4096 // maximum number of hits whose memory the next call reuses
)

func (b *Buffer) reset() {
	clear(b.hits) // drops references, so that the garbage collector can free memory
	clear(b.values)
	clear(b.complaints)
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

func (b *Buffer) dropComplaints() {
	if b != nil {
		b.complaints = b.complaints[:0]
	}
}

// wantsEveryLine reports whether lines of streams that no rule selects are needed too.
func (b *Buffer) wantsEveryLine() bool { return b != nil && b.everyLine }

// copyText returns a text that stays valid as long as the hits. A text in the block is not copied. Any other text is
// copied into the buffer.
func (b *Buffer) copyText(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(text)))
	if at-uintptr(unsafe.Pointer(unsafe.SliceData(b.block))) < uintptr(len(b.block)) {
		return unsafe.String(unsafe.SliceData(text), len(text))
	}
	if cap(b.text)-len(b.text) < len(text) {
		// Strings that refer to the previous chunk keep it in memory.
		b.text = make([]byte, 0, max(len(text), min(2*cap(b.text), maxChunk), minChunk))
	}
	n := len(b.text)
	b.text = append(b.text, text...)
	return unsafe.String(&b.text[n], len(text))
}

func (b *Buffer) makeStrings(n int) []string {
	if cap(b.values)-len(b.values) < n {
		b.values = make([]string, 0, max(n, 2*cap(b.values)))
	}
	from := len(b.values)
	b.values = b.values[:from+n]
	return b.values[from : from+n : from+n]
}

func (b *Buffer) appendHit(expected int) *Hit {
	if b.hits == nil {
		b.hits = make([]Hit, 0, min(max(1, expected), maxHits))
	}
	b.hits = append(b.hits, Hit{})
	return &b.hits[len(b.hits)-1]
}
