package envelope

import (
	"bytes"
)

// facts are what the fields around a line say about it.
type facts struct {
	place [roleTransport + 1][]byte
	file  Place // where the line was written, as a path or words before the line say
	stamp []byte
	// zoneless means that the time is coarse and may be a local one: what the line states
	// itself is better.
	zoneless bool
	rank     uint8 // rank of the name of the timestamp
	stream   byte  // 'o' or 'e' of stdout and stderr
	partial  bool
	tagged   bool // partial is stated
	signs
}

// signs say whether the fields of one JSON value are those of an envelope.
type signs struct {
	kube     bool  // the name of a field says that it describes a container
	nested   bool  // the fields about the place have an object of their own
	placed   bool  // fields name a place
	timed    bool  // a field is a time
	streamed bool  // a field is stdout or stderr
	flat     uint8 // number of fields with one plain word that name a place
	object   bool  // a field may name an object that a program works on, and no place
}

// records reads lines from JSON values, whatever the names, the order and the nesting of
// their fields. It is not safe for concurrent use.
type records struct {
	classes map[string]*keyClass
	trees   []*tree // one for each level of JSON in the text of JSON
	depth   int
	texts   [][]byte
	compact []byte
	out     func(f *facts, text []byte) // takes the line of a record
	wrote   func(f *facts, text []byte) // takes JSON that a program wrote
	quiet   bool                        // lines are only counted
	frames  []*facts                    // one for each depth
	found   int
	raw     int // values that are lines themselves
}

// class returns what a name says; raw is as in the JSON text.
func (r *records) class(raw []byte) *keyClass {
	if c := r.classes[string(raw)]; c != nil {
		return c
	}
	c := new(keyClass)
	*c = classify(string(unescape(nil, raw)))
	if len(r.classes) < 10_000 {
		r.classes[string(raw)] = c
	}
	return c
}

// frame returns a copy of facts in memory that is reused by the next record of the same depth.
func (r *records) frame(f *facts) *facts {
	for r.depth >= len(r.frames) {
		r.frames = append(r.frames, new(facts))
	}
	to := r.frames[r.depth]
	*to = *f
	return to
}

// read passes on the lines in a JSON value. whole is false if the end of the value is
// missing. It reports false, and passes on nothing, if the value has no line: it is one itself,
// or none.
func (r *records) read(b []byte, outer facts) (n int, whole, ok bool) {
	for r.depth >= len(r.trees) {
		r.trees = append(r.trees, new(tree))
		r.texts = append(r.texts, nil)
	}
	t := r.trees[r.depth]
	n, whole, ok = t.parse(b)
	if !ok || !whole || len(t.nodes) == 0 {
		return n, whole, false
	}
	outer.signs = signs{}
	if len(bytes.TrimLeft(b[n:], " \t\r\n,;`")) > 0 && !r.hasRecord(t, outer) {
		return n, true, false // a program wrote more than one value
	}
	return n, true, r.walkRoot(t, outer)
}

// hasRecord reports whether a value has a line in an envelope.
func (r *records) hasRecord(t *tree, outer facts) bool {
	found := r.found
	r.quiet = true
	r.walkRoot(t, outer)
	has := r.found > found
	r.quiet, r.found = false, found
	_, _, _ = t.parse(t.text)
	return has
}

func (r *records) walkRoot(t *tree, outer facts) bool {
	r.foldAttributes(t)
	if !r.markRecords(t) {
		return false
	}
	before, raw := r.found, r.raw
	r.depth++
	r.walk(t, 0, &outer)
	r.depth--
	return r.found > before || r.raw > raw
}

// foldAttributes turns attributes, such as {"key":"k8s.pod.name","value":{"stringValue":"x"}},
// into fields.
func (r *records) foldAttributes(t *tree) {
	for i := range t.nodes {
		if x := &t.nodes[i]; x.key == nil {
			x.class = &nameless
		} else {
			x.class = r.class(x.key)
		}
	}
	for i := len(t.nodes) - 1; i >= 0; i-- {
		x := &t.nodes[i]
		if x.kind != '{' || x.end <= int32(i)+1 {
			continue
		}
		var name, value *node
		count := 0
		for c := int32(i) + 1; c < x.end; c = t.nodes[c].end {
			y := &t.nodes[c]
			if count++; count > 3 {
				break
			}
			switch k := y.class; {
			case k.name && y.kind == '"':
				name = y
			case k.value || len(y.key) == 2 && y.key[0] == 's' || bytes.HasSuffix(y.key, []byte("Value")):
				value = y
			}
		}
		switch {
		case count == 1 && value != nil && bytes.HasSuffix(value.key, []byte("Value")) && value.kind != '{' && value.kind != '[':
			x.kind, x.val, x.esc = value.kind, value.val, value.esc
		case count <= 3 && name != nil && value != nil && value.kind != '{' && value.kind != '[' && x.key == nil && len(name.val) > 0:
			x.kind, x.key, x.val, x.esc, x.class = value.kind, name.val, value.val, value.esc, r.class(name.val)
			if x.parent >= 0 && t.nodes[x.parent].kind == '[' {
				t.nodes[x.parent].kind = '{'
			}
		}
	}
}

// nameless is the class of values without a name.
var nameless keyClass

// markRecords marks what is or contains a record, and reports whether the tree has one.
func (r *records) markRecords(t *tree) bool {
	any := false
	for i := int32(0); i < int32(len(t.nodes)); {
		x := &t.nodes[i]
		if x.kind == '{' && r.isObject(t, i) {
			i = x.end
			continue
		}
		if x.kind == '{' && r.lineOf(t, i) >= 0 || x.kind == '[' && x.parent >= 0 && pair(t, i) >= 0 || x.kind == '{' && r.table(t, i) != nil || x.kind == '[' && x.parent < 0 && texts(t, i) {
			any = true
			for p := i; p >= 0 && !t.nodes[p].record; p = t.nodes[p].parent {
				t.nodes[p].record = true
			}
		}
		i = r.nextNode(t, i)
	}
	return any
}

// isObject reports whether a JSON object is one of Kubernetes, such as an Event.
func (r *records) isObject(t *tree, i int32) bool {
	for c := i + 1; c < t.nodes[i].end; c = t.nodes[c].end {
		if y := &t.nodes[c]; (y.kind == '"' || y.kind == '{') && y.class.object {
			return true
		}
	}
	return false
}

// nextNode returns the index of the node after i in the order of the text. What a folded
// attribute contains is left out.
func (r *records) nextNode(t *tree, i int32) int32 {
	if x := &t.nodes[i]; x.kind != '{' && x.kind != '[' {
		return x.end
	}
	return i + 1
}

// lineOf returns the field of an object that has the line, -1 if there is none.
func (r *records) lineOf(t *tree, i int32) int32 {
	best, rank := int32(-1), uint8(255)
	x := &t.nodes[i]
	for c := i + 1; c < x.end; c = t.nodes[c].end {
		y := &t.nodes[c]
		k := y.class
		switch {
		case k.line == 0 || k.line >= rank || y.kind == '[' || y.kind == '0':
		case y.kind == '{':
			// A program's own fields, as an object.
			if r.ownObject(t, c) {
				best, rank = c, k.line
			}
		case len(y.val) > 0:
			best, rank = c, k.line
		}
	}
	return best
}

// ownObject reports whether an object has the fields that a program logs, so that it is the
// line itself.
func (r *records) ownObject(t *tree, i int32) bool {
	own, line := false, false
	x := &t.nodes[i]
	for c := i + 1; c < x.end; c = t.nodes[c].end {
		k := t.nodes[c].class
		if k.role != roleNone && k.role != roleName && (k.kube || t.nodes[c].kind == '{') || string(t.nodes[c].key) == "kubernetes" {
			return false
		}
		own = own || k.own || k.level || k.time > 0
		line = line || k.line > 0 && !k.raw && t.nodes[c].kind == '"'
	}
	return own && line
}

// attrs is the class of what contains labels or attributes.
var attrs = &keyClass{role: roleAttrs}

// msgRank is the rank of the name under which zap and klog write their message.
var msgRank = classify("msg").line

// pair returns the line of an array such as ["1763632800000000000","line"], -1 if it is none.
func pair(t *tree, i int32) int32 {
	x := &t.nodes[i]
	first := i + 1
	if first >= x.end || t.nodes[x.parent].kind != '[' {
		return -1
	}
	second := t.nodes[first].end
	if second >= x.end || t.nodes[second].kind != '"' || t.nodes[first].kind == '{' || t.nodes[first].kind == '[' {
		return -1
	}
	if _, _, ok := epoch(t.nodes[first].val); ok {
		return second
	}
	if n, _ := stampLen(t.nodes[first].val); n > 0 {
		return second
	}
	return -1
}

// texts reports whether an array consists of lines.
func texts(t *tree, i int32) bool {
	x := &t.nodes[i]
	for c := i + 1; c < x.end; c = t.nodes[c].end {
		if t.nodes[c].kind != '"' {
			return false
		}
	}
	return x.end > i+1
}

// table returns the names of the columns of an object with columns and rows.
func (r *records) table(t *tree, i int32) [][]byte {
	x := &t.nodes[i]
	var names [][]byte
	rows := false
	for c := i + 1; c < x.end; c = t.nodes[c].end {
		switch y := &t.nodes[c]; string(y.key) {
		case "columns", "fields":
			if y.kind == '[' || y.kind == '{' {
				names = columns(t, c)
			}
		case "rows", "values", "data":
			rows = rows || y.kind == '[' && c+1 < y.end && t.nodes[c+1].kind == '['
		}
	}
	if !rows {
		return nil
	}
	for _, n := range names {
		if r.class(n).line > 0 {
			return names
		}
	}
	return nil
}

func columns(t *tree, i int32) (names [][]byte) {
	for c := i + 1; c < t.nodes[i].end; c = t.nodes[c].end {
		switch y := &t.nodes[c]; y.kind {
		case '"':
			names = append(names, y.val)
		case '{':
			for k := c + 1; k < y.end; k = t.nodes[k].end {
				if string(t.nodes[k].key) == "name" || string(t.nodes[k].key) == "text" {
					names = append(names, t.nodes[k].val)
					break
				}
			}
		}
	}
	return names
}

// walk passes on the records at and below a node.
func (r *records) walk(t *tree, i int32, outer *facts) {
	x := &t.nodes[i]
	switch {
	case x.kind == '{' && r.lineOf(t, i) >= 0:
		r.record(t, i, outer)
		return
	case x.kind == '{' && r.table(t, i) != nil:
		r.rows(t, i, outer)
		return
	case x.kind == '[' && x.parent >= 0 && pair(t, i) >= 0:
		r.pairRecord(t, i, outer)
		return
	case x.kind == '[' && x.parent < 0 && texts(t, i):
		for c := i + 1; c < x.end; c = t.nodes[c].end {
			r.pass(outer, r.text(&t.nodes[c]))
		}
		return
	}
	ctx := *outer
	ctx.stamp, ctx.rank = leading(t, i, ctx)
	for c := i + 1; c < x.end; c = t.nodes[c].end {
		if y := &t.nodes[c]; !y.record && x.kind == '{' {
			r.gather(t, c, nil, &ctx)
		}
	}
	for c := i + 1; c < x.end; c = t.nodes[c].end {
		switch y := &t.nodes[c]; {
		case y.record:
			r.walk(t, c, &ctx)
		case x.kind == '[' && y.kind == '{':
			// Beside records, what is no record is a line too: nothing is lost.
			r.whole(&ctx, y.val)
		}
	}
}

// leading returns the time at the start of an array such as [1763632800.1, {...}].
func leading(t *tree, i int32, ctx facts) ([]byte, uint8) {
	x := &t.nodes[i]
	if x.kind != '[' || i+1 >= x.end {
		return ctx.stamp, ctx.rank
	}
	c := i + 1
	if t.nodes[c].kind == '[' {
		c++
	}
	if c < x.end && t.nodes[c].kind != '{' && t.nodes[c].kind != '[' {
		if _, _, ok := epoch(t.nodes[c].val); ok {
			return t.nodes[c].val, 1
		}
	}
	return ctx.stamp, ctx.rank
}

// gather adds what a field, and the fields in it, say about the place and the time.
func (r *records) gather(t *tree, i int32, parent *keyClass, f *facts) {
	x := &t.nodes[i]
	k := x.class
	switch x.kind {
	case '{':
		if k.about && parent != nil && (parent.kube || parent.role == rolePod || parent.role == roleNamespace) {
			return
		}
		if parent != nil && parent.kube && !k.kube {
			kube := *k
			kube.kube = true
			k = &kube
		}
		for c := i + 1; c < x.end; c = t.nodes[c].end {
			r.gather(t, c, k, f)
		}
	case '[':
		for c := i + 1; c < x.end; c = t.nodes[c].end {
			if y := &t.nodes[c]; y.kind == '"' {
				r.tag(y.val, f)
			} else if y.kind == '{' && k.role == roleNone {
				r.gather(t, c, parent, f)
			}
		}
	default:
		r.fact(k, parent, x.val, x.esc, f)
	}
}

// tag reads a tag such as pod_name:x.
func (r *records) tag(val []byte, f *facts) {
	at := bytes.IndexAny(val, ":=")
	if at <= 0 {
		return
	}
	if k := r.class(val[:at]); k.role != roleNone && k.role != roleName && k.role != roleAttrs {
		r.fact(k, nil, val[at+1:], false, f)
	}
}

// fact adds what one field says.
func (r *records) fact(k, parent *keyClass, val []byte, esc bool, f *facts) {
	if k.time > 0 && (f.stamp == nil || k.time < f.rank) && len(val) > 0 {
		f.stamp, f.rank, f.timed = val, k.time, true
	}
	if (k.role == roleStream || k.role == roleFile || k.role == roleName) && (string(val) == "stdout" || string(val) == "stderr") {
		f.stream, f.streamed, f.nested = val[3], true, true
		return
	}
	which := k.role
	if which == roleName && parent != nil {
		which = parent.role
	}
	switch which {
	case rolePod, roleNamespace, roleContainer:
		if esc || !isName(val) {
			if p, ok := placeOfPath(val); ok {
				f.file, f.nested, f.placed = p, true, true
			}
			return
		}
		if len(val) >= 64 && which == roleContainer {
			return // an identifier
		}
		f.place[which], f.placed = val, true
		switch {
		case k.kube || parent != nil && parent.kube:
			f.kube, f.nested = true, true
		case parent == nil:
			f.flat, f.object = f.flat+1, true
		case k.role == roleName || parent.role == rolePod || parent.role == roleContainer || parent.role == roleNode:
			f.object = true // {"pod":{"name":"x","namespace":"y"}}
		default:
			f.nested = true
		}
	case roleNode, roleCluster, roleUnit, roleIdentifier, roleTransport:
		if !esc && len(val) > 0 && len(val) < 254 {
			f.place[which] = val
			f.object = f.object || which == roleNode && !k.host
			f.placed = f.placed || which == roleUnit || which == roleIdentifier
		}
	case roleTag:
		if len(val) == 1 && (val[0] == 'F' || val[0] == 'P') {
			f.partial, f.tagged = val[0] == 'P', true
		}
	case roleAttrs:
		r.attributes(val, esc, f)
	case roleFile, roleStream:
		if p, ok := placeOfPath(val); ok {
			f.file, f.nested, f.placed = p, true, true
		}
	}
}

// attributes reads labels that are written as a text: JSON, or {a="b", c="d"}.
func (r *records) attributes(val []byte, esc bool, f *facts) {
	if p, ok := placeOfPath(val); ok {
		f.file, f.nested, f.placed = p, true, true
		return
	}
	if esc {
		val = unescape(nil, val)
	}
	if len(val) < 5 || val[0] != '{' {
		return
	}
	var t tree
	if _, whole, ok := t.parse(val); ok && whole {
		r.foldAttributes(&t)
		for c := int32(1); c < int32(len(t.nodes)); c = t.nodes[c].end {
			r.gather(&t, c, attrs, f)
		}
		return
	}
	r.labelSet(val, f)
}

// labelSet reads {a="b", c="d"} and {a:b, c:d}, and returns its length.
func (r *records) labelSet(b []byte, f *facts) int {
	i := 1
	for i < len(b) {
		for i < len(b) && (b[i] == ' ' || b[i] == ',') {
			i++
		}
		if i < len(b) && b[i] == '}' {
			return i + 1
		}
		start := i
		for i < len(b) && b[i] != '=' && b[i] != ':' && b[i] != '}' && b[i] != ' ' {
			i++
		}
		if i >= len(b) || i == start || b[i] == '}' || b[i] == ' ' {
			return 0
		}
		key := bytes.Trim(b[start:i], `"`)
		i++
		var val []byte
		if i < len(b) && b[i] == ' ' {
			i++
		}
		if i < len(b) && b[i] == '"' {
			v, _, next, done := quoted(b, i)
			if !done {
				return 0
			}
			val, i = v, next
		} else {
			start = i
			for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ' ' {
				i++
			}
			val = b[start:i]
		}
		r.fact(r.class(key), attrs, val, false, f)
	}
	return 0
}

func (r *records) text(x *node) []byte {
	if !x.esc {
		return x.val
	}
	buf := r.texts[r.depth-1][:0]
	buf = unescape(buf, x.val)
	r.texts[r.depth-1] = buf
	return buf
}

// pass passes on a line.
func (r *records) pass(f *facts, text []byte) {
	if r.found++; !r.quiet {
		r.out(f, text)
	}
}

// whole passes on a JSON object that a program wrote, on one line.
func (r *records) whole(f *facts, b []byte) {
	r.raw++
	if r.quiet {
		return
	}
	if bytes.IndexByte(b, '\n') >= 0 {
		r.compact = appendCompact(r.compact[:0], b)
		b = r.compact
	}
	r.wrote(f, b)
}

// pairRecord passes on a line with its time.
func (r *records) pairRecord(t *tree, i int32, ctx *facts) {
	line := pair(t, i)
	f := r.frame(ctx)
	f.stamp, f.rank = t.nodes[i+1].val, 1
	for c := t.nodes[line].end; c < t.nodes[i].end; c = t.nodes[c].end {
		r.gather(t, c, attrs, f)
	}
	r.pass(f, r.text(&t.nodes[line]))
}

// rows passes on the rows of a table.
func (r *records) rows(t *tree, i int32, ctx *facts) {
	names := r.table(t, i)
	for c := i + 1; c < t.nodes[i].end; c = t.nodes[c].end {
		if key := string(t.nodes[c].key); key != "rows" && key != "values" && key != "data" {
			continue
		}
		for row := c + 1; row < t.nodes[c].end; row = t.nodes[row].end {
			f, best, rank := r.frame(ctx), int32(-1), uint8(255)
			at := 0
			for cell := row + 1; cell < t.nodes[row].end; cell = t.nodes[cell].end {
				if at < len(names) {
					t.nodes[cell].key, t.nodes[cell].class = names[at], r.class(names[at])
					if k := r.class(names[at]); k.line > 0 && k.line < rank {
						best, rank = cell, k.line
					}
				}
				at++
			}
			for cell := row + 1; cell < t.nodes[row].end; cell = t.nodes[cell].end {
				if cell != best {
					r.gather(t, cell, nil, f)
				}
			}
			switch {
			case best >= 0 && t.nodes[best].kind == '{':
				r.whole(f, t.nodes[best].val)
			case best >= 0:
				r.pass(f, r.text(&t.nodes[best]))
			default:
				r.whole(f, t.nodes[row].val)
			}
		}
	}
}

// record passes on the line of an object, or the object if a program wrote it.
func (r *records) record(t *tree, i int32, ctx *facts) {
	line := r.lineOf(t, i)
	x, l := &t.nodes[i], &t.nodes[line]
	k := l.class
	f := r.frame(ctx)
	own, level, foreign := false, false, 0
	for c := i + 1; c < x.end; c = t.nodes[c].end {
		if c == line {
			continue
		}
		m := t.nodes[c].class
		own = own || m.own
		level = level || m.level
		if m.role == roleNone && m.time == 0 && m.line == 0 && !m.level {
			foreign++
		}
	}
	for c := i + 1; c < x.end; c = t.nodes[c].end {
		if m := t.nodes[c].class; c != line && (!own || m.kube || m.role == roleStream || m.role == roleAttrs || m.time > 0) {
			r.gather(t, c, nil, f) // others say what a program works on
		}
	}
	switch {
	case l.kind == '{':
		if r.trusted(f, k, own, level, foreign, nil) {
			r.whole(f, l.val)
			return
		}
		r.written(t, i, ctx)
		return
	}
	text := r.text(l)
	if !r.trusted(f, k, own, level, foreign, text) {
		r.written(t, i, ctx)
		return
	}
	if (own && level || own && foreign > 2) && !k.raw && !looksLogged(text) {
		r.whole(f, x.val) // a shipper has merged the fields of the program with its own
		return
	}
	if k.raw && string(l.key) == "log" && !f.tagged && f.partial {
		f.partial = false
	}
	r.pass(f, text)
}

// written passes on, once, the value around a node that a program wrote: the whole one, or
// the element of a list.
func (r *records) written(t *tree, i int32, f *facts) {
	for t.nodes[i].parent >= 0 && t.nodes[t.nodes[i].parent].first != '[' {
		i = t.nodes[i].parent
	}
	if x := &t.nodes[i]; !x.passed {
		x.passed = true
		r.whole(f, x.text)
	}
}

// trusted reports whether an object is an envelope, and not what a program wrote itself.
func (r *records) trusted(f *facts, line *keyClass, own, level bool, foreign int, text []byte) bool {
	switch {
	case text != nil && looksLogged(text) && (f.placed || f.timed || f.streamed || line.raw):
		return true
	case f.kube && f.placed, f.placed && (f.place[roleIdentifier] != nil || f.place[roleUnit] != nil):
		return true
	case own:
		return false
	case f.nested && (f.placed || f.streamed):
		return true
	case line.raw && (f.timed || f.placed):
		return true
	case f.flat >= 2 && !level:
		return true
	case f.placed && f.place[rolePod] != nil && f.place[roleContainer] != nil:
		return !level || line.line != msgRank
	}
	return f.timed && !level && !f.object && (foreign == 0 || r.depth > 0 && f.rank > 0 && foreign <= 2)
}

// looksLogged reports whether a text begins as the line of a log: with a header of klog, a
// time, a level, or as JSON.
func looksLogged(b []byte) bool {
	h := headerOf(b)
	return h != none && h != word
}

// place returns where a line was written, by its facts.
func (f *facts) where() Place {
	p := f.file
	for _, x := range []struct {
		to   *string
		from []byte
	}{
		{&p.Cluster, f.place[roleCluster]}, {&p.Namespace, f.place[roleNamespace]}, {&p.Pod, f.place[rolePod]}, {&p.Container, f.place[roleContainer]}, {&p.Node, f.place[roleNode]},
		{&p.Unit, f.place[roleUnit]}, {&p.Identifier, f.place[roleIdentifier]}, {&p.Transport, f.place[roleTransport]},
	} {
		if len(x.from) > 0 {
			*x.to = string(x.from)
		}
	}
	if p.Pod != "" { // the fields of syslog are those of its container
		p.Unit, p.Identifier, p.Transport = "", "", ""
	}
	return p
}

// key appends what tells places apart.
func (f *facts) key(dst []byte) []byte {
	for _, v := range f.place {
		dst = append(append(dst, v...), 0)
	}
	if f.file != (Place{}) {
		dst = append(dst, f.file.Namespace...)
		dst = append(append(dst, 0), f.file.Pod...)
		dst = append(append(dst, 0), f.file.Container...)
	}
	return dst
}

// pairs reads a line in an envelope of logfmt, such as ts=... pod=x line="...". It reports
// false if the line is one that a program wrote.
func (r *records) pairs(b []byte, outer *facts) bool {
	if !bytes.Contains(b, []byte("pod")) && !bytes.Contains(b, []byte("stream=")) {
		return false
	}
	f := r.frame(outer)
	f.signs = signs{}
	var line []byte
	var lineClass *keyClass
	own, level, foreign := false, false, 0
	for i := 0; i < len(b); {
		if b[i] == ' ' {
			i++
			continue
		}
		eq := bytes.IndexByte(b[i:], '=')
		if eq <= 0 || bytes.IndexByte(b[i:i+eq], ' ') >= 0 {
			return false
		}
		k := r.class(b[i : i+eq])
		i += eq + 1
		var val []byte
		esc := false
		if i < len(b) && b[i] == '"' {
			var done bool
			if val, esc, i, done = quoted(b, i); !done {
				return false
			}
		} else {
			end := bytes.IndexByte(b[i:], ' ')
			if end < 0 {
				end = len(b) - i
			}
			val, i = b[i:i+end], i+end
		}
		own, level = own || k.own, level || k.level
		switch {
		case k.line > 0 && (lineClass == nil || k.line < lineClass.line):
			line, lineClass = val, k
			if esc {
				line = unescape(nil, val)
			}
		case k.role == roleNone && k.time == 0 && !k.level:
			foreign++
		default:
			r.fact(k, nil, val, esc, f)
		}
	}
	if lineClass == nil || !f.placed || !r.trusted(f, lineClass, own, level, foreign, line) {
		return false
	}
	r.depth++
	r.pass(f, line)
	r.depth--
	return true
}
