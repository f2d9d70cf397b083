package envelope

import (
	"bytes"
)

// block is a record with one field on each line, as journalctl writes it with -o export and
// -o verbose.
type block struct {
	lines [][]byte
	facts facts
	text  []byte
	has   bool   // a MESSAGE
	stamp []byte // timestamp of the line that begins the entry
}

func (o *block) open() bool { return len(o.lines) > 0 }

// isBlock reports whether a line is the field of an entry of the journal.
func isBlock(b []byte) bool {
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
	return bytes.Contains(b, []byte(" [s=")) && bytes.HasSuffix(b, []byte("]"))
}

// add takes a line of an entry. It returns false if the line belongs to none.
func (o *block) add(d *Decoder, text []byte, f *facts, rest []byte) bool {
	switch {
	case !isBlock(text) && !isEntryHead(text) && len(bytes.TrimSpace(text)) > 0 && !(o.has && text[0] == ' '):
		o.end(d)
		return false
	case !o.open() && !journalFollows(text, rest):
		return false
	case len(bytes.TrimSpace(text)) == 0, isEntryHead(text):
		o.end(d)
		if k := bytes.Index(text, []byte(" [s=")); k > 0 {
			o.stamp = append([]byte(nil), text[:k]...)
			return true
		}
		return len(text) == 0
	}
	if !o.open() {
		o.facts = *f
		if o.stamp != nil {
			o.facts.stamp, o.facts.rank = o.stamp, 200
		}
	}
	line := append([]byte(nil), text...)
	o.lines = append(o.lines, line)
	line = bytes.TrimLeft(line, " ")
	k := bytes.IndexByte(line, '=')
	if !isBlock(line) { // a further line of the message
		o.text = append(append(o.text, '\n'), line...)
		return true
	}
	if string(line[:k]) == "MESSAGE" {
		o.text, o.has = line[k+1:], true
		return true
	}
	d.rec.fact(d.rec.class(line[:k]), nil, line[k+1:], false, &o.facts)
	if len(o.lines) > 200 {
		o.end(d)
	}
	return true
}

// journalFollows reports whether fields of the journal begin.
func journalFollows(text, rest []byte) bool {
	if isEntryHead(text) {
		return true
	}
	n := 0
	for _, l := range [][]byte{text, firstLine(rest)} {
		if isBlock(l) {
			n++
		}
	}
	return n == 2
}

func firstLine(b []byte) []byte {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	return line
}

// end decodes the entry.
func (o *block) end(d *Decoder) {
	if !o.open() {
		return
	}
	lines, f, text, has := o.lines, o.facts, o.text, o.has
	*o = block{}
	if has {
		d.rec.depth++
		d.inner(&f, text)
		d.rec.depth--
		return
	}
	for _, l := range lines {
		d.raw = l
		d.out(&f, l, false)
	}
}
