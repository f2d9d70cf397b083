package prefilter

import "bytes"

// chunk is the number of bytes that are marked at a time. The marks of a chunk fit into the processor's L1 cache.
const chunk = 4 << 10

const blockSize = 64

// Marks is working memory for the methods of a Filter. The zero value is ready. It is not safe for concurrent use.
type Marks struct {
	// NUL reports, while Lines calls line, whether the block has a NUL byte in the lines up to the current one.
	NUL bool
	// found are the texts in the line for which Lines currently calls line. Their offsets are offsets in the block.
	found []FoundText

	hashes [chunk + blockSize]byte   // hash of the pair of bytes at each position
	ends   positions                 // positions of newlines
	places positions                 // positions at which a text may begin
	padded [chunk + 2*blockSize]byte // copy of a chunk that is not followed by readable memory
}

// positions is a list of positions in a chunk. It has additional room, because the vector code writes beyond the last
// position.
type positions [chunk + 2*blockSize]uint16

// markedChunk describes the marks of a chunk.
type markedChunk struct {
	size         int
	ends, places []uint16
	nul          bool // whether the chunk, or the memory directly after it, has a NUL byte
}

// mark marks the positions in the first chunk of text. It may read bytes after the text, up to the capacity of the
// slice. These bytes do not affect the marks.
func (b *buckets) mark(m *Marks, text []byte) (c markedChunk) {
	c.size = min(len(text), chunk)
	blocks := (c.size + blockSize - 1) / blockSize
	read := (blocks+1)*blockSize + 1 // a text that begins in the last block may end in the next one
	from := m.padded[:read]
	if cap(text) >= read {
		from = text[:read]
	} else {
		clear(from[copy(from, text[:c.size]):])
	}
	ends, least := hashPairs(&m.hashes[0], &from[0], blocks+1, &m.ends[0])
	places := b.look(&m.hashes[0], blocks, &m.places[0])
	c.ends, c.places, c.nul = positionsBelow(m.ends[:ends], c.size), positionsBelow(m.places[:places], c.size), hasZero(least)
	return c
}

func positionsBelow(list []uint16, n int) []uint16 {
	for len(list) > 0 && int(list[len(list)-1]) >= n {
		list = list[:len(list)-1]
	}
	return list
}

func hasZero(x uint64) bool { return (x-0x0101010101010101)&^x&topBits != 0 }

// HasTexts reports whether Lines searches for texts. If it does not, every line may contain a text, unless f is nil.
func (f *Filter) HasTexts() bool { return f != nil && f.buckets != nil }

// Lines calls line for each line of a block, in order. A line does not include its newline. may is set if the line may
// contain a text of the filter. If HasTexts is true, AppendWithin returns these texts.
func (f *Filter) Lines(m *Marks, block []byte, line func(start, end int, may bool)) {
	if f == nil || f.buckets == nil {
		f.plainLines(m, block, line)
		return
	}
	m.NUL = false
	m.found = m.found[:0]
	start := 0
	for from := 0; from < len(block); {
		c := f.buckets.mark(m, block[from:])
		m.NUL = m.NUL || c.nul && bytes.IndexByte(block[from:from+c.size], 0) >= 0
		places := c.places
		for _, k := range c.ends {
			for ; len(places) > 0 && places[0] < k; places = places[1:] {
				m.found = f.appendAt(m.found, block, from+int(places[0]))
			}
			line(start, from+int(k), len(m.found) > 0)
			start, m.found = from+int(k)+1, m.found[:0]
		}
		for _, k := range places {
			m.found = f.appendAt(m.found, block, from+int(k))
		}
		from += c.size
	}
	if start < len(block) {
		line(start, len(block), len(m.found) > 0)
	}
}

// AppendWithin is Append for a section of the line for which Lines currently calls line. The section begins at byte
// from of the block. m is the argument of Lines.
func (f *Filter) AppendWithin(dst []FoundText, part []byte, from int, m *Marks) []FoundText {
	for _, t := range m.found {
		if t.At -= from; t.At >= 0 && t.At+len(f.texts[t.Text].Text) <= len(part) {
			dst = append(dst, t)
		}
	}
	return dst
}

func (f *Filter) plainLines(m *Marks, block []byte, line func(start, end int, may bool)) {
	m.NUL = bytes.IndexByte(block, 0) >= 0
	for start := 0; start < len(block); {
		end := len(block)
		if k := bytes.IndexByte(block[start:], '\n'); k >= 0 {
			end = start + k
		}
		line(start, end, f != nil)
		start = end + 1
	}
}

func (f *Filter) appendMarked(dst []FoundText, buf []byte, m *Marks) []FoundText {
	for from := 0; from < len(buf); {
		c := f.buckets.mark(m, buf[from:])
		for _, k := range c.places {
			dst = f.appendAt(dst, buf, from+int(k))
		}
		from += c.size
	}
	return dst
}

// appendAt appends the texts whose window is at pos.
func (f *Filter) appendAt(dst []FoundText, buf []byte, pos int) []FoundText {
	for i := range f.buckets.windows {
		t := &f.buckets.windows[i]
		if pos+t.q <= len(buf) && t.set.has(t.load(buf, pos)*prime) {
			dst = f.appendWithGram(dst, t, buf, pos)
		}
	}
	return dst
}
