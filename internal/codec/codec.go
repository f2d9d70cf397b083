// Package codec stores values in a compact form that is fast to read. The same function writes and reads a type, so
// that writing and reading cannot differ.
//
// It is for data that the same program has written or that is part of the program. It trusts the data that it reads,
// and the form may change with each version.
package codec

import (
	"encoding/binary"
	"strings"
	"time"
)

// Codec either writes values, or reads values in the order in which another Codec has written them. Values are passed
// as pointers. A writing Codec takes the values from there, and a reading Codec sets them. It is not safe for
// concurrent use.
type Codec struct {
	reading bool
	// numbers and texts are the output of a writing Codec.
	numbers []byte
	texts   strings.Builder
	// in holds the numbers that a reading Codec has not read yet. all holds the texts.
	in, all string
}

// NewWriter returns a Codec that writes.
func NewWriter() *Codec { return &Codec{} }

// NewReader returns a Codec that reads data from Result. The texts that it returns share memory with data.
func NewReader(data string) *Codec {
	c := &Codec{reading: true, in: data}
	n := c.uvarint()
	c.all, c.in = c.in[:n], c.in[n:]
	return c
}

// Result returns the data that was written.
func (c *Codec) Result() string {
	head := binary.AppendUvarint(nil, uint64(c.texts.Len()))
	return string(head) + c.texts.String() + string(c.numbers)
}

// IsReading reports whether the Codec reads values.
func (c *Codec) IsReading() bool { return c.reading }

func (c *Codec) uvarint() uint64 {
	var v uint64
	for i, shift := 0, 0; ; i, shift = i+1, shift+7 {
		b := c.in[i]
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			c.in = c.in[i+1:]
			return v
		}
	}
}

// Int64 writes or reads an integer.
func (c *Codec) Int64(v *int64) {
	if !c.reading {
		c.numbers = binary.AppendVarint(c.numbers, *v)
		return
	}
	u := c.uvarint()
	*v = int64(u>>1) ^ -int64(u&1) //nolint:gosec // the encoding of AppendVarint
}

// Int writes or reads an int.
func (c *Codec) Int(v *int) {
	n := int64(*v)
	c.Int64(&n)
	*v = int(n)
}

// Bool writes or reads a bool.
func (c *Codec) Bool(v *bool) {
	n := 0
	if *v {
		n = 1
	}
	c.Int(&n)
	*v = n == 1
}

// Duration writes or reads a duration.
func (c *Codec) Duration(v *time.Duration) { c.Int64((*int64)(v)) }

// Text writes or reads a text. A text that equals, or is part of, a text that was written before takes only a few
// bytes.
func Text[T ~string](c *Codec, v *T) {
	if !c.reading {
		at := strings.Index(c.texts.String(), string(*v))
		if at < 0 {
			at = c.texts.Len()
			c.texts.WriteString(string(*v))
		}
		n := len(*v)
		c.Int(&at)
		c.Int(&n)
		return
	}
	var at, n int
	c.Int(&at)
	c.Int(&n)
	*v = T(c.all[at : at+n])
}

// List writes or reads a list. each writes or reads one element. A nil list stays nil.
func List[T any](c *Codec, v *[]T, each func(*Codec, *T)) {
	n := len(*v) + 1
	if *v == nil {
		n = 0
	}
	c.Int(&n)
	if n == 0 {
		return
	}
	if c.reading {
		*v = make([]T, n-1)
	}
	for i := range *v {
		each(c, &(*v)[i])
	}
}

// Texts writes or reads a list of texts.
func Texts(c *Codec, v *[]string) { List(c, v, Text[string]) }

// Pointer writes or reads a value that may be nil.
func Pointer[T any](c *Codec, v **T, each func(*Codec, *T)) {
	has := *v != nil
	c.Bool(&has)
	if !has {
		return
	}
	if c.reading {
		*v = new(T)
	}
	each(c, *v)
}

// Deferred is a value that was read but not decoded. The zero value contains nothing.
type Deferred struct{ in, all string }

// IsZero reports whether there is no value.
func (l Deferred) IsZero() bool { return l.in == "" }

// Read returns a Codec that reads the value.
func (l Deferred) Read() *Codec { return &Codec{reading: true, in: l.in, all: l.all} }

// DecodeLater writes the output of write, or reads such output without decoding it. The output can be decoded later if
// it is needed. A reading Codec does not call write.
func (c *Codec) DecodeLater(v *Deferred, write func(*Codec)) {
	if c.reading {
		n := c.uvarint()
		*v = Deferred{in: c.in[:n], all: c.all}
		c.in = c.in[n:]
		return
	}
	outer := c.numbers
	c.numbers = nil
	write(c)
	inner := c.numbers
	c.numbers = append(binary.AppendUvarint(outer, uint64(len(inner))), inner...)
}
