package envelope

import "bytes"

// sheet is a table of text: the names of the columns, and rows of cells.
type sheet struct {
	sep    byte  // Zero means columns that are aligned with spaces.
	starts []int // where the columns begin that are aligned
	names  []*keyClass
	cells  [][]byte
	buf    []byte
	open   bool   // A cell continues on the next line.
	row0   []byte // the row so far
}

// sheetOf returns the table that a line begins, if it has the names of columns for a line and
// for its time or its place.
func (d *Decoder) sheetOf(text []byte) *sheet {
	if len(text) > 4<<10 || headerOf(text) != none {
		return nil
	}
	for _, sep := range []byte(",\t;|\x00") {
		s := &sheet{sep: sep}
		if sep == 0 {
			s.align(text)
		} else if sep == '|' && bytes.HasPrefix(text, []byte("||")) { // names of columns in Jira
			text = bytes.ReplaceAll(text, []byte("||"), []byte("|"))
		} else if bytes.IndexByte(text, sep) < 0 {
			continue
		}
		if s.split(text) && len(s.cells) > 1 && s.head(&d.rec) {
			return s
		}
	}
	return nil
}

// align notes where columns begin whose names have two spaces between them.
func (s *sheet) align(text []byte) {
	for i := range text {
		if text[i] != ' ' && (i == 0 || i > 1 && text[i-1] == ' ' && text[i-2] == ' ') {
			s.starts = append(s.starts, i)
		}
	}
}

// head reports whether the cells are the names of columns.
func (s *sheet) head(r *records) bool {
	line, described := false, false
	rank := uint8(255)
	for i, c := range s.cells {
		name := bytes.TrimSpace(c)
		if len(name) == 0 && i > 0 && i < len(s.cells)-1 || len(name) > 80 || bytes.ContainsAny(name, "{}=:\"<>") || len(bytes.Fields(name)) > 3 {
			return false
		}
		k := r.class(name)
		if s.names = append(s.names, k); k.line > 0 && k.line < rank {
			line, rank = true, k.line
		} else {
			described = described || k.time > 0 || k.role != roleNone && k.role != roleName
		}
	}
	return line && described
}

// split reads the cells of a row. It returns false if a cell does not end.
func (s *sheet) split(row []byte) bool {
	s.cells, s.buf = s.cells[:0], s.buf[:0]
	for i, start := range s.starts {
		end := len(row)
		if i+1 < len(s.starts) {
			end = min(end, s.starts[i+1])
		}
		s.cells = append(s.cells, bytes.TrimRight(row[min(start, end):end], " "))
	}
	if s.sep == 0 {
		return true
	}
	if cap(s.buf) < len(row) {
		s.buf = make([]byte, 0, 2*len(row)) // cells must stay where they are
	}
	for i := 0; ; i++ {
		if i < len(row) && row[i] == '"' {
			start := len(s.buf)
			for i++; ; {
				k := bytes.IndexByte(row[i:], '"')
				if k < 0 {
					return false
				}
				s.buf = append(s.buf, row[i:i+k]...)
				if i += k + 1; i == len(row) || row[i] != '"' {
					break
				}
				s.buf, i = append(s.buf, '"'), i+1
			}
			s.cells = append(s.cells, s.buf[start:])
			for i < len(row) && row[i] != s.sep {
				i++
			}
		} else {
			k := bytes.IndexByte(row[i:], s.sep)
			if k < 0 || len(s.names) > 0 && s.sep != '\t' && len(s.cells) == len(s.names)-1 {
				k = len(row) - i // the last cell may contain the separator
			}
			s.cells = append(s.cells, row[i:i+k])
			i += k
		}
		switch i {
		case len(row):
			return true
		case len(row) - 1:
			s.cells = append(s.cells, nil)
			return true
		}
	}
}

// row decodes a row. It returns false if the line is none.
func (s *sheet) row(d *Decoder, text []byte, outer *facts) bool {
	if s.open {
		s.row0 = append(append(s.row0, '\n'), text...)
		if text = s.row0; len(text) > maxLine {
			s.open = false
			return false
		}
	}
	if len(bytes.Trim(text, " \t-+=|:")) == 0 { // what separates rows
		return true
	}
	if !s.split(text) {
		if !s.open {
			s.row0 = append(s.row0[:0], text...)
		}
		s.open = true
		return true
	}
	s.open = false
	if len(s.cells) != len(s.names) {
		return false
	}
	t := d.rec.tree()
	t.begin(text)
	for i, c := range s.cells {
		if s.names[i].line == 0 || s.sep == '|' {
			c = bytes.TrimSpace(c)
		}
		if s.sep == '|' { // The cell may be set as code.
			if inner, ok := bytes.CutPrefix(c, []byte("{{")); ok {
				c = bytes.TrimSuffix(inner, []byte("}}"))
			}
			c = bytes.Trim(c, "`")
		}
		t.addField(s.names[i], c, false)
	}
	f := *outer
	return d.rec.row(t, &f, true)
}

// end decodes a row without an end.
func (s *sheet) end(d *Decoder) {
	if s.open {
		d.rows(new(facts), s.row0)
	}
}

// isPairs reports whether a line begins with two pairs of logfmt.
func isPairs(b []byte) bool {
	if headerOf(b) == logfmt {
		return true
	}
	for range 2 {
		eq := bytes.IndexAny(b, "= \"{")
		if eq <= 0 || b[eq] != '=' {
			return false
		}
		_, _, next, ok := valueAt(b, eq+1, " ")
		if !ok || next >= len(b) {
			return false
		}
		b = b[next+1:]
	}
	return true
}

// pairs reads a line in an envelope of logfmt, such as ts=... pod=x line="...". It reports
// false if the line is one that a program wrote.
func (d *Decoder) pairs(b []byte, f *facts) bool {
	if !bytes.Contains(b, []byte("pod")) && !bytes.Contains(b, []byte("stream=")) {
		return false
	}
	t := d.rec.tree()
	t.begin(b)
	placed := false
	for i := 0; i < len(b); {
		if b[i] == ' ' {
			i++
			continue
		}
		eq := bytes.IndexByte(b[i:], '=')
		if eq <= 0 || bytes.IndexByte(b[i:i+eq], ' ') >= 0 {
			return false
		}
		k := d.rec.class(b[i : i+eq])
		val, esc, next, ok := valueAt(b, i+eq+1, " ")
		if !ok {
			return false
		}
		t.addField(k, val, esc)
		placed = placed || k.role == rolePod || k.role == roleNamespace || k.role == roleContainer || k.role == roleFile
		i = next
	}
	g := *f
	return placed && d.rec.row(t, &g, false)
}

// entry is a record with one field on each line, as journalctl writes it with -o export and
// -o verbose.
type entry struct {
	text   []byte // lines
	fields [][3]int
	facts  facts
	stamp  []byte // time in the line that begins the entry
	has    bool   // It has a MESSAGE, which is the newest field.
	seen   bool   // The input has entries.
}

func (o *entry) open() bool { return len(o.fields) > 0 }

// isField reports whether a line is the field of an entry of the journal.
func isField(b []byte) bool {
	b = bytes.TrimLeft(b, " ")
	k := bytes.IndexByte(b, '=')
	if k < 3 || k > 64 {
		return false
	}
	for _, c := range b[:k] {
		if c != '_' && !('A' <= c && c <= 'Z') && c-'0' > 9 {
			return false
		}
	}
	return true
}

// isEntryHead reports whether a line begins an entry in the form of journalctl -o verbose.
func isEntryHead(b []byte) bool {
	return len(b) > 0 && b[len(b)-1] == ']' && bytes.Contains(b, []byte(" [s="))
}

// add takes a line of an entry. It returns false if the line belongs to none.
func (o *entry) add(d *Decoder, text []byte, f *facts, rest []byte) bool {
	blank, head, field := len(bytes.TrimSpace(text)) == 0, isEntryHead(text), isField(text)
	switch next, _, _ := bytes.Cut(rest, []byte("\n")); {
	case !field && !head && !blank && (!o.has || text[0] != ' '):
		o.end(d)
		return false
	case !o.open() && !head && !o.seen && (!field || !isField(next)):
		return false
	case blank || head || len(o.fields) > 200:
		o.end(d)
		if head {
			o.stamp = append([]byte(nil), text[:bytes.Index(text, []byte(" [s="))]...)
		}
		if blank || head {
			return true
		}
	}
	if o.seen = true; !o.open() {
		o.facts = *f
		if o.stamp != nil {
			o.facts.stamp, o.facts.rank = o.stamp, 200
		}
	}
	o.text = append(o.text, '\n')
	if start := len(o.text); field {
		line := bytes.TrimLeft(text, " ")
		eq := bytes.IndexByte(line, '=')
		o.has = string(line[:eq]) == "MESSAGE"
		o.text = append(o.text, line...)
		o.fields = append(o.fields, [3]int{start, start + eq, len(o.text)})
	} else { // a further line of the message
		o.text = append(o.text, bytes.TrimLeft(text, " ")...)
		o.fields[len(o.fields)-1][2] = len(o.text)
	}
	return true
}

// end decodes the entry.
func (o *entry) end(d *Decoder) {
	if !o.open() {
		return
	}
	t := d.rec.tree()
	t.begin(o.text)
	for _, x := range o.fields {
		t.addField(d.rec.class(o.text[x[0]:x[1]]), o.text[x[1]+1:x[2]], false)
	}
	f, text := o.facts, o.text
	o.text, o.fields, o.has, o.stamp = o.text[:0], o.fields[:0], false, nil
	if d.raw = text[1:]; !d.rec.row(t, &f, true) {
		d.rows(&f, text[1:])
	}
}
