// Package jsonwalk visits the parts of a JSON text without building a tree of it.
package jsonwalk

import "github.com/go-json-experiment/json/jsontext"

// NewOptions returns the options of a decoder that accepts repeated names, and replaces invalid UTF-8.
func NewOptions() []jsontext.Options {
	return []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
}

// Members calls read for each member of the object that is the next value. read must consume the member's value.
// Members skips a value that is not an object.
func Members(d *jsontext.Decoder, read func(name string) error) error {
	return values(d, '{', func() error {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		return read(name.String())
	})
}

// Elements calls read for each element of the array that is the next value. read must consume the element. Elements
// skips a value that is not an array.
func Elements(d *jsontext.Decoder, read func() error) error { return values(d, '[', read) }

func values(d *jsontext.Decoder, kind jsontext.Kind, read func() error) error {
	if d.PeekKind() != kind {
		return d.SkipValue()
	}
	_, err := d.ReadToken()
	for err == nil && d.PeekKind() != kind+2 { // loop until the closing bracket
		err = read()
	}
	if err == nil {
		_, err = d.ReadToken()
	}
	return err
}
