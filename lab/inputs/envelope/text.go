package envelope

import (
	"bytes"
	"io"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// Text reads UTF-8 lines from what may be UTF-16, may begin with a byte order mark, and may
// have blocks of NUL bytes, as a log has after a power failure: each block ends a line. It is
// not safe for concurrent use.
type Text struct {
	r     io.Reader
	began bool
	last  byte
	nuls  int64
}

// NewText returns a reader of r, which begins with head.
func NewText(r io.Reader, head []byte) *Text {
	if order := byteOrder(head); order != nil {
		r = transform.NewReader(r, order.NewDecoder())
	}
	return &Text{r: r, last: '\n'}
}

// NULs returns how many NUL bytes were left out.
func (t *Text) NULs() int64 { return t.nuls }

// IsWide reports whether text that begins so is UTF-16.
func IsWide(head []byte) bool { return byteOrder(head) != nil }

// byteOrder returns the encoding of UTF-16 text, nil for other text.
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
		n = t.clean(p[:n])
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
	}
}

// clean removes a byte order mark and NUL bytes in place, and returns how many bytes are left.
func (t *Text) clean(b []byte) int {
	if !t.began && len(b) > 0 {
		t.began = true
		if rest, ok := bytes.CutPrefix(b, []byte("\ufeff")); ok {
			b = b[:copy(b, rest)]
		}
	}
	k := bytes.IndexByte(b, 0)
	if k < 0 {
		if len(b) > 0 {
			t.last = b[len(b)-1]
		}
		return len(b)
	}
	n := k
	if k > 0 {
		t.last = b[k-1]
	}
	for i := k; i < len(b); {
		if b[i] == 0 {
			run := i
			for i < len(b) && b[i] == 0 {
				i++
			}
			t.nuls += int64(i - run)
			if i-run >= minBlock && t.last != '\n' {
				b[n], t.last = '\n', '\n'
				n++
			}
			continue
		}
		end := bytes.IndexByte(b[i:], 0)
		if end < 0 {
			end = len(b) - i
		}
		n += copy(b[n:], b[i:i+end])
		i += end
		t.last = b[n-1]
	}
	return n
}

// minBlock is the number of NUL bytes that are no longer a part of a line.
const minBlock = 8
