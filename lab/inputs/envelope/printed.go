package envelope

import (
	"bytes"
	"regexp"
)

// printed reads records with one field on each line, as the debug exporter of OpenTelemetry
// prints them: those of the resource come first, and belong to each of its records.
type printed struct {
	text   []byte
	fields [][3]int // where the names and the values begin and end
	shared int      // the number of fields of the resource
	open   bool     // within a resource
	record bool     // within a record
}

var (
	resourceHead = regexp.MustCompile(`(?:^|\s)ResourceLog #\d+$`)
	recordHead   = regexp.MustCompile(`^LogRecord #\d+$`)
	scopeLine    = regexp.MustCompile(`^(?:ScopeLogs #\d+|InstrumentationScope\b.*)$`)
	printedField = regexp.MustCompile(`^(?: +-> )?([A-Za-z_][\w.@/ -]{0,100}):(?: |$)`)
	printedValue = regexp.MustCompile(`(?s)^(?:Str|Int|Double|Bool|Map|Slice|Bytes)\((.*?)\)?$`)
)

// add takes a line. It returns false if the line belongs to no resource.
func (o *printed) add(d *Decoder, text []byte) bool {
	switch {
	case resourceHead.Match(text):
		o.end(d)
		o.text, o.fields, o.shared = o.text[:0], o.fields[:0], 0
		o.open, o.record = true, false
	case !o.open:
		return false
	case recordHead.Match(text):
		if o.end(d); !o.record {
			o.record, o.shared = true, len(o.fields)
		}
	case scopeLine.Match(text):
		o.end(d)
	case printedField.Match(text) && !o.continues():
		m := printedField.FindSubmatchIndex(text)
		start := len(o.text)
		o.text = append(append(o.text, text...), '\n')
		o.fields = append(o.fields, [3]int{start + m[2], start + m[3], len(o.text) - 1})
	case o.continues() && len(o.text) < maxLine:
		o.text = append(append(o.text, text...), '\n')
		o.fields[len(o.fields)-1][2] = len(o.text) - 1
	default:
		o.end(d)
		o.open = false
		return false
	}
	return true
}

// continues reports whether the newest value has no end yet.
func (o *printed) continues() bool {
	if len(o.fields) == 0 {
		return false
	}
	val := o.value(o.fields[len(o.fields)-1])
	return printedValue.Match(val) && val[len(val)-1] != ')'
}

// value returns the value of a field, as it is printed.
func (o *printed) value(x [3]int) []byte {
	return bytes.TrimPrefix(o.text[x[1]+1:x[2]], []byte(" "))
}

// end decodes the record.
func (o *printed) end(d *Decoder) {
	if !o.record || len(o.fields) == o.shared {
		return
	}
	t := d.rec.tree()
	t.begin(o.text)
	for _, x := range o.fields {
		val := o.value(x)
		if m := printedValue.FindSubmatch(val); m != nil {
			val = m[1]
		}
		if len(val) > 0 && !bytes.HasPrefix(val, []byte("1970-01-01 00:00:00 ")) { // a time that is not set
			t.addField(d.rec.class(o.text[x[0]:x[1]]), val, false)
		}
	}
	f := facts{file: d.base}
	d.raw = o.text
	d.rec.row(t, &f, true)
	if o.fields = o.fields[:o.shared]; o.shared > 0 {
		o.text = o.text[:o.fields[o.shared-1][2]+1]
	} else {
		o.text = o.text[:0]
	}
}
