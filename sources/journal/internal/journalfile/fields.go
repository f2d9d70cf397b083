package journalfile

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
)

// Field is a field of an entry.
type Field struct {
	Name, Value []byte
	Cut         bool  // the value is longer
	Err         error // the field cannot be read; the name is not known
}

// Bounds of the fields that are kept because several entries have them.
const (
	maxKnown     = 256     // bytes of one
	maxKnownSize = 1 << 20 // bytes of all
	knownCost    = 160     // bytes of one beside its name and value
	maxName      = 64      // journald allows names of at most 64 bytes
)

// Fields yields the fields of an entry in their order in the file. One that cannot be
// read has an error. Name and Value are valid until the next field.
func (f *File) Fields(e *Entry) iter.Seq[Field] {
	return func(yield func(Field) bool) {
		for _, off := range e.data {
			field, ok := f.known[off]
			if !ok {
				var err error
				if field, err = f.field(off); err != nil {
					field = Field{Err: &Damage{Offset: off, Err: err}}
				}
			}
			if !yield(field) {
				return
			}
		}
	}
}

// field reads a data object.
func (f *File) field(off uint64) (Field, error) {
	head := uint64(dataHead)
	if f.h.compact {
		head += 8
	}
	b, err := f.object(off, typeData, head, false)
	if err != nil {
		return Field{}, err
	}
	flags, size, users := b[1], le.Uint64(b[8:])-head, le.Uint64(b[56:])
	keep := uint64(f.max) + maxName + 1
	n := min(size, keep)
	if flags != 0 { // the last block that is needed may be larger than what is kept of it
		n = min(size, keep+maxBlock)
	}
	if b, err = f.bytes(off+head, n, false); err != nil {
		return Field{}, err
	}
	cut := n < size
	if flags != 0 {
		if b, cut, err = f.inflate.data(flags, b, int(keep)); err != nil { //nolint:gosec // keep is small
			return Field{}, fmt.Errorf("decompress a field: %w", err)
		}
	}
	name, value, ok := bytes.Cut(b, []byte("="))
	if !ok || len(name) == 0 || len(name) > maxName {
		return Field{}, errors.New("it is no field")
	}
	if len(value) > f.max {
		value, cut = value[:f.max], true
	}
	field := Field{Name: name, Value: value, Cut: cut}
	if users > 1 && len(value) <= maxKnown && !cut {
		field = f.keep(off, field)
	}
	return field, nil
}

// keep remembers a field that several entries have.
func (f *File) keep(off uint64, field Field) Field {
	size := len(field.Name) + len(field.Value)
	if f.knownSize += size + knownCost; f.known == nil || f.knownSize > maxKnownSize {
		f.known, f.knownSize = map[uint64]Field{}, size+knownCost
	}
	b := append(append(make([]byte, 0, size), field.Name...), field.Value...)
	field.Name, field.Value = b[:len(field.Name):len(field.Name)], b[len(field.Name):]
	f.known[off] = field
	return field
}
