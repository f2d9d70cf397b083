package envelope

import (
	"bytes"
	"io"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// Text reads an input as UTF-8 lines. The input may be UTF-16, may begin with a byte order mark, and may contain blocks
// of NUL bytes, which a power failure leaves in logs. A block of NUL bytes ends a line. Text is not safe for concurrent
// use.
type Text struct {
	r     io.Reader
	began bool
	last  byte
	nuls  *int64
}

// NewText returns a reader for the lines of r. head contains the first bytes of r. The number of omitted NUL bytes is
// added to nuls.
func NewText(r io.Reader, head []byte, nuls *int64) *Text {
	if order := byteOrder(head); order != nil {
		r = transform.NewReader(r, order.NewDecoder())
	}
	return &Text{r: r, last: '\n', nuls: nuls}
}

// IsWide reports whether head is the beginning of UTF-16 text.
func IsWide(head []byte) bool { return byteOrder(head) != nil }

func byteOrder(head []byte) encoding.Encoding {
	little, big := unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xfe")):
		return little
	case bytes.HasPrefix(head, []byte("\xfe\xff")):
		return big
	}
	var nuls [2]int
	head = head[:min(len(head), 512)]
	for i, b := range head {
		if b == 0 {
			nuls[i%2]++
		}
	}
	switch half := len(head) / 2; {
	case half < 4:
	case nuls[0] == 0 && nuls[1] > half*3/4:
		return little
	case nuls[1] == 0 && nuls[0] > half*3/4:
		return big
	}
	return nil
}

// Read implements io.Reader.
func (t *Text) Read(p []byte) (int, error) {
	for {
		n, err := t.r.Read(p)
		if n = t.clean(p[:n]); n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
	}
}

// clean removes a byte order mark and NUL bytes in place, and returns the remaining length.
func (t *Text) clean(b []byte) int {
	if !t.began && len(b) > 0 {
		t.began = true
		if rest, ok := bytes.CutPrefix(b, []byte("\ufeff")); ok {
			b = b[:copy(b, rest)]
		}
	}
	out := b[:0]
	for len(b) > 0 {
		k := bytes.IndexByte(b, 0)
		if k < 0 {
			k = len(b)
		}
		rest := bytes.TrimLeft(b[k:], "\x00")
		nuls := len(b) - k - len(rest)
		if out = append(out, b[:k]...); len(out) > 0 {
			t.last = out[len(out)-1]
		}
		if nuls >= minBlock && t.last != '\n' {
			out, t.last = append(out, '\n'), '\n'
		}
		*t.nuls += int64(nuls)
		b = rest
	}
	return len(out)
}

// minBlock is the minimum number of consecutive NUL bytes that form a block.
const minBlock = 8
