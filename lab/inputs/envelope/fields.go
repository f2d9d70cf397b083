package envelope

import (
	"bytes"
	"regexp"
)

// field is a field of a record that is not JSON.
type field struct{ name, value []byte }

// outFields emits the log line in the fields of a record. It returns false if no field contains
// one.
func (d *Decoder) outFields(fields []field, f *facts) bool {
	t := d.rec.tree()
	t.begin(nil)
	for _, x := range fields {
		t.addField(d.rec.class(x.name), x.value, false)
	}
	d.raw = nil
	return d.rec.row(t, *f, true)
}

// sheet is a CSV export: the names of the columns, and the cells of the current row.
type sheet struct {
	sep     byte
	columns []field
	cells   [][]byte
	row     []byte // beginning of a row whose cell continues in the next line
}

// openSheet opens a sheet if line consists of names of columns, among them one for log lines,
// and one for times or places.
func openSheet(d *Decoder, line []byte, _ *facts, _ []byte) bool {
	s := d.sheetOf(line)
	if s == nil {
		return false
	}
	d.block = s
	return true
}

func (d *Decoder) sheetOf(line []byte) *sheet {
	if len(line) > 4<<10 || headerOf(line) != none {
		return nil
	}
	for _, sep := range []byte(",\t;") {
		s := &sheet{sep: sep}
		if s.split(line) && len(s.cells) > 1 && s.setNames(&d.rec) {
			return s
		}
	}
	return nil
}

// setNames stores the cells as names of columns. It returns false if they are not such names.
func (s *sheet) setNames(r *records) bool {
	line, described := false, false
	rank := uint8(255)
	for i, c := range s.cells {
		name := bytes.Clone(bytes.TrimSpace(c))
		if len(name) == 0 && i > 0 && i < len(s.cells)-1 || len(name) > 80 || bytes.ContainsAny(name, "{}=:\"<>") || len(bytes.Fields(name)) > 3 {
			return false
		}
		k := r.class(name)
		if s.columns = append(s.columns, field{name: name}); k.line > 0 && k.line < rank {
			line, rank = true, k.line
		} else {
			described = described || k.time > 0 || k.role != roleNone && k.role != roleName
		}
	}
	return line && described
}

// split reads the cells of a row. It returns false if the last cell continues in the next line.
func (s *sheet) split(row []byte) bool {
	s.cells = s.cells[:0]
	for more := true; more; {
		cell := row
		if len(row) > 0 && row[0] == '"' {
			end := 1
			for end < len(row) && (row[end] != '"' || bytes.HasPrefix(row[end+1:], []byte(`"`))) {
				end += 1 + btoi(row[end] == '"')
			}
			if end >= len(row) {
				return false
			}
			cell = bytes.ReplaceAll(row[1:end], []byte(`""`), []byte(`"`))
			_, row, more = bytes.Cut(row[end:], []byte{s.sep})
		} else if last := len(s.columns) > 0 && s.sep != '\t' && len(s.cells) == len(s.columns)-1; last {
			more = false // The last cell may contain the separator, so it is not split.
		} else {
			cell, row, more = bytes.Cut(row, []byte{s.sep})
		}
		s.cells = append(s.cells, cell)
	}
	return true
}

func (s *sheet) isOpen() bool { return len(s.row) > 0 }

func (s *sheet) add(d *Decoder, line []byte, f *facts, _ []byte) bool {
	if len(s.row) > 0 {
		s.row = append(append(s.row, '\n'), line...)
		line = s.row
	}
	switch {
	case len(bytes.TrimSpace(line)) == 0:
		return true
	case len(line) > maxLine:
		d.block = nil
		return false
	case !s.split(line):
		s.row = append(s.row[:0], line...)
		return true
	}
	if s.row = s.row[:0]; len(s.cells) != len(s.columns) {
		d.block = nil
		return false
	}
	for i, c := range s.cells {
		if d.rec.class(s.columns[i].name).line == 0 {
			c = bytes.TrimSpace(c)
		}
		s.columns[i].value = c
	}
	return d.outFields(s.columns, f)
}

func (s *sheet) end(d *Decoder) {
	if len(s.row) > 0 {
		d.outLines(new(facts), s.row)
	}
}

// listing reads records with one field on each line: journal entries from journalctl with -o
// export or -o verbose, and records from OpenTelemetry's debug exporter.
type listing struct {
	field, head *regexp.Regexp
	fields      []field
	facts       facts
	resource    bool // whether the form is OpenTelemetry's, in which the fields of a resource come first
	shared      int  // number of fields of the resource; they belong to each of its records
	open        bool // whether the newest value continues in the next line
}

var (
	journalField = regexp.MustCompile(`^ *([A-Z_0-9]{3,64})=()(.*)$`)
	journalHead  = regexp.MustCompile(`^(?:(.*) \[s=.*\])?\s*$`)
	printedField = regexp.MustCompile(`^(?: +-> )?([A-Za-z_][\w.@/ -]{0,100}):(?: ((?:Str|Int|Double|Bool|Map|Slice|Bytes)\()?(.*))?$`)
	printedHead  = regexp.MustCompile(`(?:^|\s)(ResourceLog) #\d+$|^(LogRecord) #\d+$|^ScopeLogs #\d+$|^InstrumentationScope\b.*$`)
)

func openListing(d *Decoder, line []byte, f *facts, rest []byte) bool {
	next, _, _ := bytes.Cut(rest, []byte("\n"))
	switch {
	case isResource(line):
		d.block = &listing{field: printedField, head: printedHead, resource: true, facts: facts{file: d.base}}
	case bytes.HasSuffix(line, []byte("]")) && contains(line, " [s="), journalField.Match(line) && journalField.Match(trimCR(next)):
		d.block = &listing{field: journalField, head: journalHead, facts: f.clone()}
	default:
		return false
	}
	return d.block.add(d, line, f, rest)
}

// isResource reports whether a line begins the records of an OpenTelemetry resource.
func isResource(line []byte) bool {
	return contains(line, "ResourceLog #") && printedHead.Match(line)
}

func (o *listing) isOpen() bool { return o.resource || len(o.fields) > 0 }

func (o *listing) add(d *Decoder, line []byte, f *facts, _ []byte) bool {
	k := len(o.fields) - 1
	m, head := o.field.FindSubmatch(line), o.head.FindSubmatch(line)
	switch {
	case head != nil:
		o.out(d)
		if !o.resource {
			o.facts = f.clone()
			if len(head[1]) > 0 {
				o.facts.stamp, o.facts.rank = bytes.Clone(head[1]), 200
			}
		} else if head[1] != nil {
			o.fields, o.shared = nil, -1
		} else if head[2] != nil && o.shared < 0 {
			o.shared = len(o.fields)
		}
		return true
	case o.open && len(o.fields[k].value) < maxLine, m == nil && k >= 0 && hasPrefix(line, " ") && string(o.fields[k].name) == "MESSAGE":
		if !o.resource {
			line = bytes.TrimLeft(line, " ")
		}
		o.fields[k].value = append(append(o.fields[k].value, '\n'), line...)
	case m != nil && k < 200:
		o.fields = append(o.fields, field{bytes.Clone(m[1]), bytes.Clone(m[3])})
		o.open = len(m[2]) > 0
		k++
	default:
		o.end(d)
		return false
	}
	if value, closed := bytes.CutSuffix(o.fields[k].value, []byte(")")); o.open && closed {
		o.fields[k].value, o.open = value, false
	}
	return true
}

// out emits the log line of the record.
func (o *listing) out(d *Decoder) {
	var fields []field
	for _, x := range o.fields {
		if len(x.value) > 0 && !hasPrefix(x.value, "1970-01-01 00:00:00 ") { // this is an unset time
			fields = append(fields, x)
		}
	}
	if o.resource && (o.shared < 0 || len(o.fields) == o.shared) {
		return
	}
	if len(o.fields) > 0 && !d.outFields(fields, &o.facts) && !o.resource {
		for _, x := range o.fields {
			d.outLines(&o.facts, append(append(x.name, '='), x.value...))
		}
	}
	o.fields, o.open = o.fields[:o.shared], false
}

func (o *listing) end(d *Decoder) {
	d.block = nil
	o.out(d)
}

// readPairs emits the log line in a logfmt envelope, such as ts=... pod=x line="...". It
// returns false if the program itself wrote the pairs.
func readPairs(d *Decoder, b []byte, f *facts, _ []byte) bool {
	if !isPairs(b) || !contains(b, "pod", "stream=") {
		return false
	}
	t := d.rec.tree()
	t.begin(b)
	placed := false
	for rest := bytes.TrimLeft(b, " "); len(rest) > 0; {
		name, _, ok := bytes.Cut(rest, []byte("="))
		if !ok || len(name) == 0 || bytes.IndexByte(name, ' ') >= 0 {
			return false
		}
		k := d.rec.class(name)
		val, esc, next, ok := valueAt(rest, len(name)+1, " ")
		if !ok {
			return false
		}
		t.addField(k, val, esc)
		placed = placed || k.role == rolePod || k.role == roleNamespace || k.role == roleContainer || k.role == roleFile
		rest = bytes.TrimLeft(rest[next:], " ")
	}
	return placed && d.rec.row(t, *f, false)
}

// isPairs reports whether a line begins with two logfmt pairs.
func isPairs(b []byte) bool { return headerOf(b) == logfmt || twoPairs.Match(b) }

var twoPairs = regexp.MustCompile(`^[^= "{]+=(?:"(?:[^"\\]|\\.)*"|[^" ][^ ]*)? [^= "{]+=(?:"(?:[^"\\]|\\.)*"|[^" ][^ ]*)? `)

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
