package envelope

import (
	"bytes"

	"sigs.k8s.io/yaml"
)

// block reads lines that belong together: a value over several lines, a record with one field
// on each line, or the rows of a table. A block that has ended removes itself from the decoder.
type block interface {
	// add adds a line. It returns false if the line does not belong to the block, which has
	// then ended.
	add(d *Decoder, line []byte, f *facts, rest []byte) bool
	// end decodes the lines that were kept.
	end(d *Decoder)
	// isOpen reports whether a value has not ended.
	isOpen() bool
}

// openers are functions that decode a line which is a record or begins a block. They return
// false for other lines. rest are the lines after it, as far as they were read.
var openers []func(d *Decoder, line []byte, f *facts, rest []byte) bool

func init() {
	openers = append(openers, openListing, openJSON, openYAML, readPairs, openSheet)
}

const (
	listSize   = 64 << 10
	docSize    = 1 << 20
	maxDocSize = 16 << 20
)

// document is a JSON value over several lines, or one that is too long for memory. The elements
// of a list are decoded when they are complete, and then dropped.
type document struct {
	text    []byte
	head    int    // length of the open brackets and the fields before a shortened list
	at      int    // offset up to which brackets were counted
	open    []byte // brackets that are not closed
	quoted  bool
	escaped bool
	limit   int // size of text at which complete elements are decoded
	facts   facts
}

// openJSON decodes the values at the beginning of a line, or opens a value over several lines.
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

// goesOn reports whether a JSON value that is cut off continues on the next line.
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

// openDocument begins with the first bytes of a value.
func (d *Decoder) openDocument(b []byte, f *facts) {
	o := &document{limit: docSize, facts: f.clone()}
	if b[0] == '[' {
		o.limit = listSize // Nothing around its elements describes them.
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

// write adds bytes, and decodes what is complete.
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

// finish decodes the value that ends at an offset. What follows it is a line.
func (o *document) finish(d *Decoder, end int) {
	d.block = nil
	value, rest := o.text[:end], bytes.TrimLeft(o.text[end:], " \t\r\n,;`")
	if _, _, ok := d.rec.read(value, o.facts); !ok && len(bytes.Trim(value, "[], \t\r\n")) > 0 { // the rest of a list is not a line
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

// shorten decodes and drops the complete elements of the outermost list with records. The
// brackets around the elements remain open.
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

// giveUp emits as lines the text of a value that cannot be read, except for the elements that
// were decoded before.
func (o *document) giveUp(d *Decoder) {
	d.block = nil
	if b := o.text[o.head:]; len(bytes.Trim(b, "[]{} \n\r\t,")) > 0 {
		d.outLines(&o.facts, b)
	}
}

// yamlDocument is a YAML document between lines of three dashes.
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
