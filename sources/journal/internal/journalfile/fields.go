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
	Cut         bool  // whether the value was longer than the limit
	Err         error // error of reading the field; Name is unknown in this case
}

// Limits of the fields that are cached because several entries have them.
const (
	maxKnown     = 256     // bytes of one field
	maxKnownSize = 1 << 20 // bytes of all fields
	knownCost    = 160     // bytes of overhead for each field
	maxName      = 64      // journald allows names of at most 64 bytes
)

// Fields yields the fields of an entry in the order of the file. A field that cannot be read
// has Err set. Name and Value are valid until the next iteration.
func (f *File) Fields(e *Entry) iter.Seq[Field] {
	return func(yield func(Field) bool) {
		for _, off := range e.data {
			field, ok := f.known[off]
			if !ok {
				var err error
				if field, err = f.readField(off); err != nil {
					field = Field{Err: &Damage{Offset: off, Err: err}}
				}
			}
			if !yield(field) {
				return
			}
		}
	}
}

// readField reads a field from the data object at off.
func (f *File) readField(off uint64) (Field, error) {
	head := uint64(dataHead)
	if f.h.compact {
		head += 8
	}
	b, err := f.readObject(off, typeData, head, false)
	if err != nil {
		return Field{}, err
	}
	flags, size, users := b[1], le.Uint64(b[8:])-head, le.Uint64(b[56:])
	keep := uint64(f.max) + maxName + 1
	n := min(size, keep)
	if flags != 0 { // the last block that is decompressed may be larger than the part that is kept
		n = min(size, keep+maxBlock)
	}
	if b, err = f.readBytes(off+head, n, false); err != nil {
		return Field{}, err
	}
	cut := n < size
	if flags != 0 {
		if b, cut, err = f.inflate.decompress(flags, b, int(keep)); err != nil { //nolint:gosec // keep is small
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
		field = f.cacheField(off, field)
	}
	return field, nil
}

// cacheField caches a field that several entries have.
func (f *File) cacheField(off uint64, field Field) Field {
	size := len(field.Name) + len(field.Value)
	if f.knownSize += size + knownCost; f.known == nil || f.knownSize > maxKnownSize {
		f.known, f.knownSize = map[uint64]Field{}, size+knownCost
	}
	b := append(append(make([]byte, 0, size), field.Name...), field.Value...)
	field.Name, field.Value = b[:len(field.Name):len(field.Name)], b[len(field.Name):]
	f.known[off] = field
	return field
}
