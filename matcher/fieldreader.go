package matcher

import (
	"time"

	"crowsnest/matcher/internal/lines"
)

// FieldReader reads the fields of single lines as rules see them. The zero value
// is ready. It is not safe for concurrent use.
type FieldReader struct{ lines.Fields }

// All returns the fields that have a value, in the order of the line. Their number and depth
// are bounded. They own their memory.
func (r *FieldReader) All() []NamedValue { return allFields(&r.Fields) }

func allFields(f *lines.Fields) (out []NamedValue) {
	for name, value := range f.All() {
		out = append(out, NamedValue{Name: name, Value: value, From: "field"})
	}
	return out
}

// ErrorOf returns the error that a line without an envelope states in a field, or "" if it
// states none.
func ErrorOf(line string) string {
	var f lines.Fields
	f.Reset([]byte(line))
	for _, name := range [...]string{"panic", "err", "error"} {
		if v, _ := f.Lookup(name); len(v) > 0 {
			return string(v)
		}
	}
	return ""
}

// TextOf returns the text of a physical line without its CRI or Docker envelope, if it
// has one. The result owns its memory.
func TextOf(line []byte) []byte {
	e, _ := readEnvelope(line)
	return append([]byte(nil), trimCR(e.Text)...)
}

// TimeOf returns the time that a physical line states in its envelope or its text. ok is false
// if it states none. The year of a klog line is that of now or the previous one, so that the
// time is at most a day after now.
func TimeOf(line []byte, now time.Time) (t time.Time, ok bool) {
	if e, kind := readEnvelope(line); kind != "" {
		return lines.StampTime(e.Stamp)
	}
	return lines.TextTime(line, now)
}

// readEnvelope reads the envelope of a line and returns its kind, cri or docker. Without an
// envelope the kind is "", and the text is the line.
func readEnvelope(line []byte) (e lines.Envelope, kind string) {
	if e, ok := lines.ReadCRI(line); ok {
		return e, "cri"
	}
	if e, ok := new(lines.Docker).Read(line); ok {
		return e, "docker"
	}
	return lines.Envelope{Text: line}, ""
}
