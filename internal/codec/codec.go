// Package codec stores values in a compact form that is read without parsing. One function
// describes how a type is stored and how it is read, so that the two cannot differ.
//
// It is for data that the same program has written, or that is built into it: it trusts what it
// reads, and there is no compatibility between versions.
package codec

import (
	"encoding/binary"
	"strings"
	"time"
)

// Codec writes values, or reads values that another Codec has written, in the same order.
// A value is passed as a pointer: a writing Codec reads it, a reading one sets it. It is not
// safe for concurrent use.
type Codec struct {
	reading bool
	// numbers and texts are what a writing Codec has written.
	numbers []byte
	texts   strings.Builder
	// in and all are what a reading Codec reads: the remaining numbers, and the texts.
	in, all string
}

// NewWriter returns a Codec that writes.
func NewWriter() *Codec { return &Codec{} }

// NewReader returns a Codec that reads what Result returned. The texts that it returns are
// parts of data, without a copy.
func NewReader(data string) *Codec {
	c := &Codec{reading: true, in: data}
	n := c.uvarint()
	c.all, c.in = c.in[:n], c.in[n:]
	return c
}

// Result returns what was written.
func (c *Codec) Result() string {
	head := binary.AppendUvarint(nil, uint64(c.texts.Len()))
	return string(head) + c.texts.String() + string(c.numbers)
}

// Reading reports whether values are read.
func (c *Codec) Reading() bool { return c.reading }

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

// Int64 stores an integer.
func (c *Codec) Int64(v *int64) {
	if !c.reading {
		c.numbers = binary.AppendVarint(c.numbers, *v)
		return
	}
	u := c.uvarint()
	*v = int64(u>>1) ^ -int64(u&1) //nolint:gosec // the form of AppendVarint
}

// Int stores an int.
func (c *Codec) Int(v *int) {
	n := int64(*v)
	c.Int64(&n)
	*v = int(n)
}

// Bool stores a bool.
func (c *Codec) Bool(v *bool) {
	n := 0
	if *v {
		n = 1
	}
	c.Int(&n)
	*v = n == 1
}

// Duration stores a duration.
func (c *Codec) Duration(v *time.Duration) { c.Int64((*int64)(v)) }

// Text stores a text. One that was written before, or is part of such a text, takes a few
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

// List stores a list whose members each describes. A nil list stays nil.
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

// Texts stores a list of texts.
func Texts(c *Codec, v *[]string) { List(c, v, Text[string]) }

// Pointer stores a value that may be nil.
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

// Later is a value that was read but not decoded. The zero value has none.
type Later struct{ in, all string }

// IsZero reports whether there is no value.
func (l Later) IsZero() bool { return l.in == "" }

// Read returns a Codec that reads the value.
func (l Later) Read() *Codec { return &Codec{reading: true, in: l.in, all: l.all} }

// Postpone stores what write writes, so that it is decoded only if it is needed. A reading
// Codec does not call write.
func (c *Codec) Postpone(v *Later, write func(*Codec)) {
	if c.reading {
		n := c.uvarint()
		*v = Later{in: c.in[:n], all: c.all}
		c.in = c.in[n:]
		return
	}
	outer := c.numbers
	c.numbers = nil
	write(c)
	inner := c.numbers
	c.numbers = append(binary.AppendUvarint(outer, uint64(len(inner))), inner...)
}
