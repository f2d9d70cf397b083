package envelope

import "bytes"

// sheet is a table of text: the names of the columns, and rows of cells.
type sheet struct {
	sep   byte
	names [][]byte
	line  int // column with the line
	cells [][]byte
	buf   []byte
	open  bool   // a cell continues on the next line
	row0  []byte // the row so far
}

// sheetOf returns the table that a line begins, if it has the names of columns for a line and
// for its time or its place.
func (d *Decoder) sheetOf(text []byte, f *facts) *sheet {
	if len(text) > 4<<10 || headerOf(text) != none || d.at != nil && len(d.chain) == 0 && !bytes.ContainsAny(text, ",;\t|") {
		return nil
	}
	for _, sep := range []byte{',', '\t', ';', '|'} {
		if bytes.IndexByte(text, sep) < 0 {
			continue
		}
		s := &sheet{sep: sep, line: -1}
		if !s.split(text) || len(s.cells) < 2 {
			continue
		}
		rank, described := uint8(255), false
		plain := true
		for i, c := range s.cells {
			name := append([]byte(nil), bytes.TrimSpace(c)...)
			s.names = append(s.names, name)
			k := d.rec.class(name)
			if len(name) == 0 && i > 0 && i < len(s.cells)-1 || len(name) > 80 || bytes.ContainsAny(name, "{}[]=:\"<>") || bytes.IndexByte(name, ' ') >= 0 && len(bytes.Fields(name)) > 3 {
				plain = false
			}
			if k.line > 0 && k.line < rank {
				s.line, rank = i, k.line
			} else {
				described = described || k.time > 0 || k.role != roleNone && k.role != roleName
			}
		}
		if plain && described && s.line >= 0 {
			return s
		}
	}
	return nil
}

// split reads the cells of a row. It returns false if a cell does not end.
func (s *sheet) split(row []byte) bool {
	s.cells, s.buf = s.cells[:0], s.buf[:0]
	if cap(s.buf) < len(row) {
		s.buf = make([]byte, 0, 2*len(row)) // cells must stay where they are
	}
	for i := 0; ; {
		if i < len(row) && row[i] == '"' {
			start := len(s.buf)
			for i++; ; {
				k := bytes.IndexByte(row[i:], '"')
				if k < 0 {
					return false
				}
				s.buf = append(s.buf, row[i:i+k]...)
				if i += k + 1; i < len(row) && row[i] == '"' {
					s.buf, i = append(s.buf, '"'), i+1
					continue
				}
				break
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
		if i >= len(row) {
			return true
		}
		if i++; i == len(row) {
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
	if len(bytes.TrimSpace(text)) == 0 {
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
	f := *outer
	for i, c := range s.cells {
		if i != s.line {
			d.rec.fact(d.rec.class(s.names[i]), attrs, bytes.TrimSpace(c), false, &f)
		}
	}
	d.rec.depth++
	line := s.cells[s.line]
	if d.rec.nested(line, f) {
		d.rec.depth--
		return true
	}
	d.inner(&f, line)
	d.rec.depth--
	return true
}

// end decodes a row without an end.
func (s *sheet) end(d *Decoder) {
	if s.open {
		d.rows(new(facts), s.row0)
	}
}

// nested decodes a text that is JSON, and an envelope itself.
func (r *records) nested(text []byte, f facts) bool {
	if len(text) < 2 || text[0] != '{' || !hinted(text) {
		return false
	}
	n, _, ok := r.read(text, f)
	return ok && n == len(text)
}
