package envelope

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"

	"sigs.k8s.io/yaml"
)

// document is a value over several lines, or one too long for memory: JSON, an element of XML, or a
// document of YAML. The elements of a list in JSON are decoded and forgotten as they end.
type document struct {
	buf, spare []byte
	closing    []byte // what ends the value; empty for JSON, whose brackets are counted
	head       int    // length of the open brackets and the fields before a list that was shrunk
	at         int    // offset up to which brackets are counted
	brackets   []byte // brackets that are open
	inText     bool
	limit      int
	facts      facts
}

const (
	listSize   = 64 << 10
	docSize    = 1 << 20
	maxDocSize = 16 << 20
)

func (o *document) open() bool { return len(o.buf) > 0 }

// start begins with the first bytes of a value.
func (o *document) start(d *Decoder, b, closing []byte, f *facts) {
	*o = document{buf: o.buf[:0], spare: o.spare, brackets: o.brackets[:0], closing: closing, limit: docSize, facts: *f}
	if b[0] == '[' {
		o.limit = listSize // Nothing around its elements describes them.
	}
	o.facts.stamp = bytes.Clone(f.stamp)
	for i, v := range f.place {
		o.facts.place[i] = bytes.Clone(v)
	}
	o.add(d, b)
}

// add adds bytes, which are a line with its end but for JSON, and decodes what is complete.
func (o *document) add(d *Decoder, b []byte) {
	if len(o.closing) > 0 {
		switch {
		case o.closing[0] == '-' && o.open() && bytes.Equal(bytes.TrimSpace(b), o.closing):
			f := o.facts
			o.finish(d, len(o.buf))
			o.start(d, b, o.closing, &f)
			return
		case o.closing[0] == '-' && headerOf(b) > word: // a line of a log
			f := o.facts
			o.finish(d, len(o.buf))
			d.content(bytes.TrimRight(b, "\n"), &f, nil)
			return
		case len(o.buf) > docSize:
			o.giveUp(d)
			d.rows(&o.facts, b)
			return
		}
		if o.buf = append(o.buf, b...); o.closing[0] == '<' && bytes.Contains(b, o.closing) {
			o.finish(d, len(o.buf))
		}
		return
	}
	o.buf = append(o.buf, b...)
	for o.at < len(o.buf) {
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
			o.brackets = append(o.brackets, o.buf[o.at])
		case '}', ']':
			k := len(o.brackets) - 1
			if k < 0 || o.brackets[k] != o.buf[o.at]-2 {
				o.giveUp(d)
				return
			}
			if o.brackets = o.brackets[:k]; k == 0 {
				o.finish(d, o.at+1)
				return
			}
		}
		o.at++
	}
	if len(o.buf) > o.limit {
		o.shrink(d)
	}
}

// finish decodes the value that ends at an index. What follows it is a line.
func (o *document) finish(d *Decoder, end int) {
	value, rest, f, ok := o.buf[:end], bytes.TrimLeft(o.buf[end:], " \t\r\n,;`"), o.facts, true
	converted := value
	o.buf = nil // The lines in it may begin another value.
	if len(o.closing) > 0 && o.closing[0] == '<' {
		converted, ok = jsonOfXML(value)
	} else if len(o.closing) > 0 {
		var err error
		converted, err = yaml.YAMLToJSON(value)
		ok = err == nil
	}
	if ok {
		d.rec.markup = len(o.closing) > 0 && o.closing[0] == '<'
		_, _, ok = d.rec.read(converted, f)
		d.rec.markup = false
	}
	if !ok && len(bytes.Trim(value, "[], \t\r\n")) > 0 { // not what is left of a list
		d.rows(&f, value)
	}
	if !o.open() {
		o.buf = value[:0]
	}
	if len(rest) > 0 {
		d.content(bytes.TrimRight(bytes.Clone(rest), "\n"), &f, nil)
	}
}

// end decodes what there is of a value without an end.
func (o *document) end(d *Decoder) {
	if o.open() && len(o.closing) == 0 {
		o.shrink(d)
	}
	if o.open() && len(o.closing) > 0 && o.closing[0] == '-' {
		o.finish(d, len(o.buf))
	}
	o.giveUp(d)
}

// rows emits text as lines.
func (d *Decoder) rows(f *facts, b []byte) {
	for line := range bytes.SplitSeq(bytes.TrimRight(b, "\n"), []byte("\n")) {
		d.raw = trimCR(line)
		d.out(f, d.raw, false)
	}
}

// shrink decodes the elements that are complete of the outermost list with records, and forgets them.
// It reports whether there were any. The brackets that are open remain.
func (o *document) shrink(d *Decoder) bool {
	t := d.rec.tree()
	_, whole, ok := t.parse(o.buf)
	if !ok || whole || len(t.nodes) == 0 {
		o.giveUp(d)
		return false
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
		next, last := int32(-1), int32(-1)
		for c := i + 1; c < x.end && next < 0; c = t.nodes[c].end {
			if t.nodes[c].open {
				next = c
			} else {
				last = c
			}
		}
		if x.first == '[' && x.record && last >= 0 {
			end := t.offset(&t.nodes[last]) + len(t.nodes[last].text)
			d.rec.depth++
			d.rec.walk(t, i, &ctx)
			d.rec.depth--
			rest := bytes.TrimLeft(o.buf[end:], " \t\r\n,")
			o.buf, o.spare = append(append(o.spare[:0], head...), rest...), o.buf
			o.at, o.head, o.limit = len(o.buf), len(head), max(o.limit, 2*len(o.buf))
			return true
		}
		for c := i + 1; c < x.end && x.first == '{'; c = t.nodes[c].end {
			if y := &t.nodes[c]; !y.record && !y.open && y.key != nil {
				head = append(append(append(append(head, '"'), y.key...), '"', ':'), y.text...)
				head = append(head, ',')
			}
		}
		d.rec.gatherAround(t, i, &ctx)
		i = next
	}
	if len(o.buf) > maxDocSize {
		o.giveUp(d)
		return false
	}
	o.limit = 2 * len(o.buf)
	return false
}

// giveUp makes lines of a value that cannot be read, but for what was decoded before.
func (o *document) giveUp(d *Decoder) {
	b, f := o.buf[min(o.head, len(o.buf)):], o.facts
	if o.buf = nil; len(bytes.Trim(b, "[]{} \n\r\t,")) > 0 {
		d.rows(&f, b)
	}
}

// closingOf returns what ends the element of XML or the document of YAML that begins with a line,
// which is as long as what follows shows. It returns nil for other lines.
func (d *Decoder) closingOf(b, rest []byte) []byte {
	if string(b) == "---" {
		k := bytes.IndexByte(rest, ':')
		if bytes.Equal(d.closing, b) || k > 1 && isLabelName(rest[:k]) && k+1 < len(rest) && (rest[k+1] == ' ' || rest[k+1] == '\n') {
			d.closing = []byte("---")
			return d.closing
		}
		return nil
	}
	if len(b) < 4 || b[0] != '<' || b[1]|0x20 < 'a' || b[1]|0x20 > 'z' {
		return nil
	}
	k := bytes.IndexAny(b, " >")
	if k < 0 || bytes.ContainsAny(b[1:k], `"=<(,`) {
		return nil
	}
	end := append(append([]byte("</"), b[1:k]...), '>')
	if !bytes.Equal(d.closing, end) {
		if !bytes.Contains(b, end) && !bytes.Contains(rest[:min(len(rest), 8<<10)], end) || isTag(b[:k]) {
			return nil
		}
		d.closing = end
	}
	return d.closing
}

// jsonOfXML returns an element as an object: attributes and elements in it are fields.
func jsonOfXML(b []byte) ([]byte, bool) {
	type element struct {
		name, text string
		fields     []byte
	}
	appendField := func(dst []byte, name string, value []byte) []byte {
		key, _ := json.Marshal(name)
		return append(append(append(append(dst, key...), ':'), value...), ',')
	}
	in := xml.NewDecoder(bytes.NewReader(b))
	in.Strict = false
	stack := []element{{}}
	for {
		token, err := in.Token()
		switch {
		case errors.Is(err, io.EOF):
			out := bytes.TrimSuffix(stack[0].fields, []byte(","))
			return append(append([]byte("{"), out...), '}'), len(stack) == 1 && len(out) > 0
		case err != nil || len(stack) > maxDepth:
			return nil, false
		}
		switch top := &stack[len(stack)-1]; x := token.(type) {
		case xml.StartElement:
			e := element{name: x.Name.Local}
			for _, a := range x.Attr {
				value, _ := json.Marshal(a.Value)
				e.fields = appendField(e.fields, a.Name.Local, value)
			}
			stack = append(stack, e)
		case xml.CharData:
			top.text += string(x)
		case xml.EndElement:
			if len(stack) == 1 {
				return nil, false
			}
			value, _ := json.Marshal(top.text)
			if len(top.fields) > 0 {
				if len(bytes.TrimSpace([]byte(top.text))) > 0 {
					top.fields = appendField(top.fields, "text", value)
				}
				value = append(append([]byte("{"), bytes.TrimSuffix(top.fields, []byte(","))...), '}')
			}
			stack = stack[:len(stack)-1]
			parent := &stack[len(stack)-1]
			parent.fields = appendField(parent.fields, top.name, value)
		}
	}
}
