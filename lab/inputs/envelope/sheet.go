package envelope

import "bytes"

// sheet is a table of text: the names of the columns, and rows of cells.
type sheet struct {
	sep   byte
	names []*keyClass
	cells [][]byte
	buf   []byte
	open  bool   // A cell continues on the next line.
	row0  []byte // the row so far
}

// sheetOf returns the table that a line begins, if it has the names of columns for a line and
// for its time or its place.
func (d *Decoder) sheetOf(text []byte) *sheet {
	if len(text) > 4<<10 || headerOf(text) != none {
		return nil
	}
	for _, sep := range []byte(",\t;") {
		s := &sheet{sep: sep}
		if bytes.IndexByte(text, sep) >= 0 && s.split(text) && len(s.cells) > 1 && s.head(&d.rec) {
			return s
		}
	}
	return nil
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
		if s.names[i].line == 0 {
			c = bytes.TrimSpace(c)
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
