package matcher

// FieldReader reads the fields of single lines as rules see them. The zero value
// is ready. It is not safe for concurrent use.
type FieldReader struct{ f fields }

// Reset takes another line, without its envelope. The line must not change while
// its fields are read.
func (r *FieldReader) Reset(line []byte) { r.f.reset(line) }

// Lookup returns the value of a field. It is valid until the next Reset and may be
// a part of the line.
func (r *FieldReader) Lookup(name string) (value []byte, ok bool) { return r.f.lookup(name) }

// JSON tells whether the line starts with an object of JSON.
func (r *FieldReader) JSON() bool {
	r.f.lookup("")
	return r.f.json
}

// All returns the fields that have a value, in the order of the line and bounded
// in number and depth. They own their memory.
func (r *FieldReader) All() []NamedValue { return r.f.all() }

// TextOf returns what a physical line says without the envelope of CRI or Docker,
// if it has one. The result owns its memory.
func TextOf(line []byte) []byte {
	if e, ok := readCRI(line); ok {
		return append([]byte(nil), trimCR(e.text)...)
	}
	if e, ok := readDocker(new(scratch), line); ok {
		return append([]byte(nil), trimCR(e.text)...)
	}
	return append([]byte(nil), trimCR(line)...)
}
