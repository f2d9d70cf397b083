package matcher

// FieldReader reads the fields of single lines as rules see them. The zero value
// is ready. It is not safe for concurrent use.
type FieldReader struct{ f fields }

// Reset sets the line to read, without its envelope. The line must not change while its
// fields are read.
func (r *FieldReader) Reset(line []byte) { r.f.reset(line) }

// Lookup returns the value of a field. It is valid until the next Reset and may be
// a part of the line.
func (r *FieldReader) Lookup(name string) (value []byte, ok bool) { return r.f.lookup(name) }

// JSON reports whether the line starts with a JSON object.
func (r *FieldReader) JSON() bool {
	r.f.lookup("")
	return r.f.json
}

// All returns the fields that have a value, in the order of the line and bounded
// in number and depth. They own their memory.
func (r *FieldReader) All() []NamedValue { return r.f.all() }

// TextOf returns the text of a physical line without its CRI or Docker envelope, if it
// has one. The result owns its memory.
func TextOf(line []byte) []byte {
	if e, ok := readCRI(line); ok {
		return append([]byte(nil), trimCR(e.text)...)
	}
	if e, ok := readDocker(new(scratch), line); ok {
		return append([]byte(nil), trimCR(e.text)...)
	}
	return append([]byte(nil), trimCR(line)...)
}
