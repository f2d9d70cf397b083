package matcher

import (
	"time"

	"crowsnest/matcher/internal/lines"
)

// FieldReader reads the fields of single lines as rules see them. The zero value
// is ready. It is not safe for concurrent use.
type FieldReader struct{ lines.Fields }

// All returns the fields that have a value, in the order of the line. Their number and depth are bounded. The result
// owns its memory.
func (r *FieldReader) All() []NamedValue { return allFields(&r.Fields) }

func allFields(f *lines.Fields) (out []NamedValue) {
	for name, value := range f.All() {
		out = append(out, NamedValue{Name: name, Value: value, Source: "field"})
	}
	return out
}

// ErrorOf returns the value of the field in which a line without an envelope states an error, or "" if there is none.
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

// TimeOf returns the time in the envelope or the text of a physical line. ok is false if the line has no time. klog
// writes no year. A line of klog gets the latest year for which its time is at most a day after now.
func TimeOf(line []byte, now time.Time) (t time.Time, ok bool) {
	if e, kind := readEnvelope(line); kind != "" {
		return lines.StampTime(e.Stamp)
	}
	return lines.TextTime(line, now)
}

// readEnvelope reads the envelope of a line and returns its kind, cri or docker. If there is none, the kind is "" and
// the envelope's text is the whole line.
func readEnvelope(line []byte) (e lines.Envelope, kind string) {
	if e, ok := lines.ReadCRI(line); ok {
		return e, "cri"
	}
	if e, ok := new(lines.Docker).Read(line); ok {
		return e, "docker"
	}
	return lines.Envelope{Text: line}, ""
}
