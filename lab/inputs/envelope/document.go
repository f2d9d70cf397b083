package envelope

import "bytes"

// document is a JSON value over several lines, or one too long for memory. The elements of a
// list are decoded and forgotten as they end.
type document struct {
	buf    []byte
	at     int // scanned up to
	depth  int
	inText bool
	elem   int // where the present element of the outermost array begins; -1: none has begun
	done   int // where what is not decoded of that array begins; 0: nothing is
	limit  int
	broken bool // the rest of the value is lines
	facts  facts
}

const (
	docSize    = 1 << 20
	maxDocSize = 16 << 20
)

func (o *document) open() bool { return o.buf != nil }

// start begins with the first bytes of a value.
func (o *document) start(d *Decoder, b []byte, f *facts) {
	*o = document{buf: make([]byte, 0, 4<<10), elem: -1, limit: docSize}
	o.facts = *f
	o.facts.stamp = append([]byte(nil), f.stamp...)
	for i, v := range f.place {
		if v != nil {
			o.facts.place[i] = append([]byte(nil), v...)
		}
	}
	if len(f.stamp) == 0 {
		o.facts.stamp = nil
	}
	o.add(d, b)
}

// add adds bytes, and decodes what is complete.
func (o *document) add(d *Decoder, b []byte) {
	if o.buf == nil {
		return
	}
	o.buf = append(o.buf, b...)
	for o.buf != nil && o.at < len(o.buf) {
		if o.inText {
			k := bytes.IndexByte(o.buf[o.at:], '"')
			if k < 0 {
				o.at = len(o.buf)
				break
			}
			o.at += k
			n := 0
			for j := o.at - 1; j >= 0 && o.buf[j] == '\\'; j-- {
				n++
			}
			o.inText = n%2 == 1
			o.at++
			continue
		}
		switch o.buf[o.at] {
		case '"':
			o.inText = true
		case '{', '[':
			if o.depth++; o.depth == 2 && o.buf[0] == '[' && o.elem < 0 && o.buf[o.at] == '{' {
				o.elem = o.at
			}
		case '}', ']':
			o.depth--
			switch {
			case o.depth <= 0:
				o.finish(d, o.at+1)
				continue
			case o.depth == 1 && o.elem >= 0:
				o.element(d, o.at+1)
				continue
			}
		}
		o.at++
	}
	if o.buf == nil {
		return
	}
	if o.forgetDone(); len(o.buf) > o.limit {
		o.shrink(d)
	}
}

// element decodes the object that ends at an index, and forgets it.
func (o *document) element(d *Decoder, end int) {
	b := o.buf[o.elem:end]
	if _, _, ok := d.rec.read(b, o.facts); !ok {
		d.rec.whole(&o.facts, b)
	}
	o.at, o.elem, o.done = end, -1, end
}

// forgetDone removes the elements that are decoded.
func (o *document) forgetDone() {
	if o.done == 0 {
		return
	}
	n := copy(o.buf[1:], o.buf[o.done:])
	o.buf, o.at = o.buf[:1+n], o.at-o.done+1
	if o.elem >= 0 {
		o.elem -= o.done - 1
	}
	o.done = 0
}

// finish decodes the value that ends at an index. What follows it is a line.
func (o *document) finish(d *Decoder, end int) {
	value, rest := o.buf[:end], o.buf[end:]
	if o.done > 0 {
		value = o.buf[o.done-1 : end]
		value[0] = '['
	}
	f := o.facts
	o.buf = nil
	switch _, _, ok := d.rec.read(value, f); {
	case ok || len(bytes.Trim(value, "[], \t\r\n")) == 0: // what is left of a list
	default:
		d.rows(&f, value)
	}
	if rest = bytes.TrimLeft(rest, " \t\r\n,;`"); len(rest) > 0 {
		d.content(bytes.TrimRight(rest, "\n"), &f, nil)
	}
}

// end decodes what there is of a value without an end.
func (o *document) end(d *Decoder) {
	if o.buf == nil {
		return
	}
	before := d.counts.Lines
	if !o.shrink(d) && d.counts.Lines == before && o.buf != nil && len(bytes.Trim(o.buf, "[] \n\r\t,")) > 0 {
		b, f := o.buf, o.facts
		o.buf = nil
		d.rows(&f, b)
	}
	o.buf = nil
}

// rows emits text as lines.
func (d *Decoder) rows(f *facts, b []byte) {
	for line := range bytes.SplitSeq(bytes.TrimRight(b, "\n"), []byte("\n")) {
		d.raw = trimCR(line)
		d.out(f, d.raw, false)
	}
}

// shrink decodes the elements that are complete of a list in the value, and forgets them. It
// reports whether there were any.
func (o *document) shrink(d *Decoder) bool {
	var t tree
	_, whole, ok := t.parse(o.buf)
	if !ok || whole || len(t.nodes) == 0 {
		o.giveUp(d)
		return false
	}
	d.rec.foldAttributes(&t)
	d.rec.markRecords(&t)
	var head, tail []byte
	for i := int32(0); ; {
		x := &t.nodes[i]
		next, lastEnd, first := int32(-1), -1, -1
		for c := i + 1; c < x.end; c = t.nodes[c].end {
			y := &t.nodes[c]
			if y.open {
				next = c
				break
			}
			if first < 0 {
				first, _ = o.span(y)
			}
			_, lastEnd = o.span(y)
		}
		if x.key != nil {
			head = append(append(append(head, '"'), x.key...), '"', ':')
		}
		head = append(head, x.opening())
		tail = append(tail, x.opening()+2)
		if x.opening() == '[' && lastEnd > 0 && x.record {
			o.forget(d, head, tail, first, lastEnd)
			return true
		}
		if next < 0 {
			break
		}
		for c := i + 1; c < next; c = t.nodes[c].end {
			if y := &t.nodes[c]; !y.record && x.opening() == '{' && y.key != nil {
				from, to := o.span(y)
				head = append(append(append(append(head, '"'), y.key...), '"', ':'), o.buf[from:to]...)
				head = append(head, ',')
			}
		}
		i = next
	}
	if len(o.buf) > maxDocSize {
		o.giveUp(d)
		return false
	}
	o.limit = 2 * len(o.buf)
	return false
}

// opening returns the byte that opens a container, whatever was made of it.
func (x *node) opening() byte { return x.first }

// span returns where the text of a value lies.
func (o *document) span(x *node) (from, to int) {
	from = cap(o.buf) - cap(x.text)
	return from, from + len(x.text)
}

// forget decodes a part of a list with the fields around it, and removes it.
func (o *document) forget(d *Decoder, head, tail []byte, from, to int) {
	part := append([]byte(nil), head...)
	part = append(part, o.buf[from:to]...)
	for i := len(tail) - 1; i >= 0; i-- {
		part = append(part, tail[i])
	}
	if _, _, ok := d.rec.read(part, o.facts); !ok {
		f := o.facts
		d.rows(&f, o.buf[from:to])
	}
	rest := bytes.TrimLeft(o.buf[to:], " \t\r\n,")
	o.buf = append(append(make([]byte, 0, docSize+64<<10), head...), rest...)
	o.at, o.depth, o.inText, o.elem, o.limit = 0, 0, false, -1, max(docSize, 2*len(o.buf))
	o.rescan()
}

// rescan counts the containers that are open.
func (o *document) rescan() {
	for o.at < len(o.buf) {
		if o.inText {
			_, _, next, done := quoted(o.buf, o.at-1)
			if o.at = next; done {
				o.inText = false
			}
			continue
		}
		switch o.buf[o.at] {
		case '"':
			o.inText = true
		case '{', '[':
			o.depth++
		case '}', ']':
			o.depth--
		}
		o.at++
	}
}

// giveUp makes lines of a value that cannot be read.
func (o *document) giveUp(d *Decoder) {
	b, f := o.buf, o.facts
	o.buf = nil
	d.rows(&f, b)
}
