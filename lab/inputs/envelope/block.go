package envelope

import (
	"bytes"

	"sigs.k8s.io/yaml"

	"crowsnest/internal/lazyre"
)

// block reads lines that belong together: a value over several lines, a record with one field on each line, or the rows
// of a table. A block removes itself from the decoder when it ends.
type block interface {
	// add adds a line to the block. If the line does not belong to the block, the block ends and add returns false.
	add(d *Decoder, line []byte, f *facts, rest []byte) bool
	// end decodes the lines that the block has kept.
	end(d *Decoder)
	// isOpen reports whether a value in the block is incomplete.
	isOpen() bool
}

// openers contains functions that decode a line which is a record or begins a block. They return false for other lines.
// rest contains the following lines, as far as they were read.
var openers []func(d *Decoder, line []byte, f *facts, rest []byte) bool

func init() {
	openers = append(openers, openListing, openJSON, openYAML, readPairs, openSheet)
}

const (
	listSize   = 64 << 10
	docSize    = 1 << 20
	maxDocSize = 16 << 20
)

// document is a JSON value over several lines, or a value that is too long for memory. Complete elements of a list are
// decoded and then dropped.
type document struct {
	text    []byte
	head    int    // length of the text before a shortened list, which consists of open brackets and fields
	at      int    // offset up to which brackets are counted
	open    []byte // brackets that are not closed
	quoted  bool
	escaped bool
	limit   int // number of bytes of text from which on complete elements are decoded and dropped
	facts   facts
}

func openJSON(d *Decoder, line []byte, f *facts, rest []byte) bool {
	b := bytes.TrimLeft(line, " \t\x1e")
	behind, how := b, invalid
	for hasPrefix(behind, "{", "[") && !d.isDocker(behind) {
		var n int
		var ok bool
		if n, how, ok = d.rec.read(behind, *f); !ok {
			break
		}
		behind = bytes.TrimLeft(behind[n:], " \t\r,;`")
	}
	switch {
	case len(b) > 0 && len(behind) == 0:
	case len(behind) < len(b):
		d.content(behind, f, rest)
	case how == cutOff && goesOn(b, rest):
		d.openDocument(append(bytes.Clone(b), '\n'), f)
	default:
		return false
	}
	return true
}

// goesOn reports whether an incomplete JSON value continues on the next line.
func goesOn(b, rest []byte) bool {
	b = bytes.TrimRight(b, " \t\r")
	next, _, _ := bytes.Cut(rest, []byte("\n"))
	next = bytes.TrimLeft(next, " \t\r>|")
	switch {
	case len(b) > 1<<10:
		return true
	case bytes.IndexByte([]byte(`{[,}]":`), b[len(b)-1]) < 0:
		return false
	case len(next) == 0:
		return len(b) <= 2
	}
	return bytes.IndexByte([]byte(`"{[}]0123456789`), next[0]) >= 0
}

func (d *Decoder) openDocument(b []byte, f *facts) {
	o := &document{limit: docSize, facts: f.clone()}
	if b[0] == '[' {
		o.limit = listSize // no text around the elements describes them
	}
	d.block = o
	o.write(d, b)
}

func (o *document) isOpen() bool { return true }

func (o *document) add(d *Decoder, line []byte, _ *facts, _ []byte) bool {
	o.write(d, line)
	if d.block == o {
		o.write(d, []byte("\n"))
	}
	return true
}

func (o *document) write(d *Decoder, b []byte) {
	for o.text = append(o.text, b...); o.at < len(o.text); o.at++ {
		switch c := o.text[o.at]; {
		case o.escaped:
			o.escaped = false
		case c == '\\':
			o.escaped = o.quoted
		case c == '"':
			o.quoted = !o.quoted
		case o.quoted:
		case c == '{' || c == '[':
			o.open = append(o.open, c)
		case c == '}' || c == ']':
			k := len(o.open) - 1
			if o.open[k] != c-2 {
				o.giveUp(d)
				return
			}
			if o.open = o.open[:k]; k == 0 {
				o.finish(d, o.at+1)
				return
			}
		}
	}
	if len(o.text) > o.limit {
		o.shorten(d)
	}
}

func (o *document) finish(d *Decoder, end int) {
	d.block = nil
	value, rest := o.text[:end], bytes.TrimLeft(o.text[end:], " \t\r\n,;`")
	if _, _, ok := d.rec.read(value, o.facts); !ok && len(bytes.Trim(value, "[], \t\r\n")) > 0 { // the remaining brackets of a list are not a line
		d.outLines(&o.facts, value[o.head:])
	}
	if len(rest) > 0 {
		d.content(rest, &o.facts, nil)
	}
}

func (o *document) end(d *Decoder) {
	if o.shorten(d); d.block == o {
		o.giveUp(d)
	}
}

// shorten decodes and drops the complete elements of the outermost list with records. The brackets around the elements
// stay open.
func (o *document) shorten(d *Decoder) {
	t := d.rec.tree()
	if _, how := t.parse(o.text); how != cutOff || len(t.nodes) == 0 {
		o.giveUp(d)
		return
	}
	d.rec.prepare(t)
	ctx := o.facts
	ctx.signs = signs{}
	var head []byte
	for i := int32(0); i >= 0; {
		x := &t.nodes[i]
		if x.key != nil {
			head = append(append(append(head, '"'), x.key...), '"', ':')
		}
		head = append(head, x.first)
		open, last := int32(-1), int32(-1)
		for c, y := range t.items(i) {
			if y.open {
				open = c
			} else if last = c; x.first == '{' && !y.record {
				head = append(append(append(append(append(head, '"'), y.key...), '"', ':'), y.text...), ',')
			}
		}
		if x.first == '[' && x.record && last >= 0 {
			end := t.offset(&t.nodes[last]) + len(t.nodes[last].text)
			d.rec.walkBelow(t, i, ctx)
			o.head = len(head)
			o.text = append(head, bytes.TrimLeft(o.text[end:], " \t\r\n,")...)
			o.at, o.limit = len(o.text), max(o.limit, 2*len(o.text))
			return
		}
		d.rec.gatherAround(t, i, &ctx)
		i = open
	}
	if o.limit = 2 * len(o.text); len(o.text) > maxDocSize {
		o.giveUp(d)
	}
}

// giveUp emits the text of a value that cannot be parsed as lines. It omits elements that were already decoded.
func (o *document) giveUp(d *Decoder) {
	d.block = nil
	if b := o.text[o.head:]; len(bytes.Trim(b, "[]{} \n\r\t,")) > 0 {
		d.outLines(&o.facts, b)
	}
}

// yamlDocument is a YAML document between two lines of three dashes.
type yamlDocument struct {
	text  []byte
	facts facts
}

func openYAML(d *Decoder, line []byte, f *facts, rest []byte) bool {
	if !d.beginsYAML(bytes.TrimLeft(line, " \t"), rest) {
		return false
	}
	d.inYAML = true
	d.block = &yamlDocument{text: append(bytes.Clone(line), '\n'), facts: f.clone()}
	return true
}

// beginsYAML reports whether a YAML document begins with line. The first document of an input
// may begin with a field instead of dashes.
func (d *Decoder) beginsYAML(line, rest []byte) bool {
	k := bytes.IndexByte(rest, ':')
	return string(line) == "---" && (d.inYAML || k > 1 && isLabelName(rest[:k]) && k+1 < len(rest) && (rest[k+1] == ' ' || rest[k+1] == '\n'))
}

func (o *yamlDocument) isOpen() bool { return true }

func (o *yamlDocument) add(d *Decoder, line []byte, _ *facts, _ []byte) bool {
	if string(bytes.TrimSpace(line)) == "---" || headerOf(line) > word || len(o.text) > docSize {
		o.end(d)
		return false
	}
	o.text = append(append(o.text, line...), '\n')
	return true
}

func (o *yamlDocument) end(d *Decoder) {
	d.block = nil
	if value, err := yaml.YAMLToJSON(o.text); err == nil {
		if _, _, ok := d.rec.read(value, o.facts); ok {
			return
		}
	}
	d.outLines(&o.facts, o.text)
}

// field is a field of a record that is not JSON.
type field struct{ name, value []byte }

// outFields emits the log line that is a field of a record. It returns false if there is none.
func (d *Decoder) outFields(fields []field, f *facts) bool {
	t := d.rec.tree()
	t.begin(nil)
	for _, x := range fields {
		t.addField(d.rec.class(x.name), x.value, false)
	}
	d.raw = nil
	return d.rec.row(t, *f, true)
}

// sheet is a table in CSV, with the names of the columns and the cells of the current row.
type sheet struct {
	sep     byte
	columns []field
	cells   [][]byte
	row     []byte // beginning of an incomplete row, whose last cell continues on the next line
}

// openSheet opens a sheet if the line consists of names of columns. One of the columns must contain log lines, and
// another one times or places.
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

// split reads the cells of a row. It returns false if the last cell continues on the next line.
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
	field, head *lazyre.Regexp
	fields      []field
	facts       facts
	resource    bool // whether the record is from OpenTelemetry, in which the fields of a resource come first
	shared      int  // number of fields of the resource, which belong to each of its records
	open        bool // whether the value of the newest field continues on the next line
}

var (
	journalField = lazyre.New(`^ *([A-Z_0-9]{3,64})=()(.*)$`)
	journalHead  = lazyre.New(`^(?:(.*) \[s=.*\])?\s*$`)
	printedField = lazyre.New(`^(?: +-> )?([A-Za-z_][\w.@/ -]{0,100}):(?: ((?:Str|Int|Double|Bool|Map|Slice|Bytes)\()?(.*))?$`)
	printedHead  = lazyre.New(`(?:^|\s)(ResourceLog) #\d+$|^(LogRecord) #\d+$|^ScopeLogs #\d+$|^InstrumentationScope\b.*$`)
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
		switch {
		case !o.resource:
			o.facts = f.clone()
			if len(head[1]) > 0 {
				o.facts.stamp, o.facts.rank = bytes.Clone(head[1]), 200
			}
		case head[1] != nil:
			o.fields, o.shared = nil, -1
		case head[2] != nil && o.shared < 0:
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

func (o *listing) out(d *Decoder) {
	var fields []field
	for _, x := range o.fields {
		if len(x.value) > 0 && !hasPrefix(x.value, "1970-01-01 00:00:00 ") { // otherwise the time is not set
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

// readPairs emits the log line in a logfmt envelope, such as ts=... pod=x line="...". It returns false if the program
// that wrote the log also wrote the pairs.
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

var twoPairs = lazyre.New(`^[^= "{]+=(?:"(?:[^"\\]|\\.)*"|[^" ][^ ]*)? [^= "{]+=(?:"(?:[^"\\]|\\.)*"|[^" ][^ ]*)? `)

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
