package envelope

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// Text reads UTF-8 lines from what may be UTF-16, may begin with a byte order mark, and may
// have blocks of NUL bytes, as a log has after a power failure: each block ends a line. It is
// not safe for concurrent use.
type Text struct {
	r     io.Reader
	order binary.ByteOrder // nil: UTF-8
	began bool
	odd   []byte // the first byte of a unit, or the bytes of half a pair
	ready []byte
	raw   []byte
	last  byte
	nuls  int64
}

// NewText returns a reader of r, which begins with head.
func NewText(r io.Reader, head []byte) *Text {
	return &Text{r: r, order: byteOrder(head), last: '\n'}
}

// NULs returns how many NUL bytes were left out.
func (t *Text) NULs() int64 { return t.nuls }

// IsWide reports whether text that begins so is UTF-16.
func IsWide(head []byte) bool { return byteOrder(head) != nil }

// byteOrder returns that of UTF-16 text, nil for other text.
func byteOrder(head []byte) binary.ByteOrder {
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xfe")):
		return binary.LittleEndian
	case bytes.HasPrefix(head, []byte("\xfe\xff")):
		return binary.BigEndian
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
		return binary.LittleEndian
	case nuls[1] == 0 && nuls[0] > half*3/4:
		return binary.BigEndian
	}
	return nil
}

// Read implements io.Reader.
func (t *Text) Read(p []byte) (int, error) {
	if len(t.ready) > 0 {
		n := copy(p, t.ready)
		t.ready = t.ready[n:]
		return n, nil
	}
	if t.order != nil {
		return t.readWide(p)
	}
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

func (t *Text) readWide(p []byte) (int, error) {
	if t.raw == nil {
		t.raw = make([]byte, 32<<10)
	}
	k := copy(t.raw, t.odd)
	n, err := t.r.Read(t.raw[k:])
	b := t.raw[:k+n]
	t.odd = t.odd[:0]
	var out []byte
	for len(b) >= 2 {
		r := rune(t.order.Uint16(b))
		size := 2
		if utf16.IsSurrogate(r) {
			if len(b) < 4 && err == nil {
				break
			}
			low := rune(0)
			if len(b) >= 4 {
				low = rune(t.order.Uint16(b[2:]))
			}
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				r, size = pair, 4
			} else {
				r = utf8.RuneError
			}
		}
		out = utf8.AppendRune(out, r)
		b = b[size:]
	}
	t.odd = append(t.odd, b...)
	out = out[:t.clean(out)]
	m := copy(p, out)
	t.ready = out[m:]
	if errors.Is(err, io.EOF) && len(t.ready) > 0 {
		err = nil
	}
	return m, err
}
