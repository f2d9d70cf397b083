package envelope

import (
	"bytes"
	"encoding/json"
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
	partial  bool  // The next line of the container continues the line.
	signs
}

// signs say whether the fields of one value are those of an envelope.
type signs struct {
	kube     bool  // The name of a field says that it describes a container.
	nested   bool  // The fields about the place have an object of their own.
	placed   bool  // Fields name a place.
	timed    bool  // A field is a time.
	streamed bool  // A field is stdout or stderr.
	flat     uint8 // number of fields with one plain word that name a place
	object   bool  // a field may name an object that a program works on, and no place
}

// records reads lines from values with named fields, whatever the names, the order and the nesting
// of the fields: JSON, and everything that has columns or keys. It is not safe for concurrent use.
type records struct {
	classes map[string]*keyClass
	trees   []*tree // one for each level of JSON in the text of JSON
	depth   int
	texts   [][]byte
	compact bytes.Buffer
	out     func(f *facts, text []byte) // takes the line of a record
	wrote   func(f *facts, text []byte) // takes JSON that a program wrote
	quiet   bool                        // Lines are only counted.
	frames  []*facts                    // one for each depth
	found   int
	raw     int  // number of values that are lines themselves
	markup  bool // Values are of XML, which no program writes itself.
}

// class returns what a name says; raw is as in the JSON text.
func (r *records) class(raw []byte) *keyClass {
	if c := r.classes[string(raw)]; c != nil {
		return c
	}
	c := new(keyClass)
	*c = classify(string(unescape(nil, raw)))
	c.key = bytes.Clone(raw)
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

// tree returns the tree of the present depth.
func (r *records) tree() *tree {
	for r.depth >= len(r.trees) {
		r.trees = append(r.trees, new(tree))
		r.texts = append(r.texts, nil)
	}
	return r.trees[r.depth]
}

// read passes on the lines in a JSON value. whole is false if the end of the value is
// missing. It reports false, and passes on nothing, if the value has no line: it is one itself,
// or none.
func (r *records) read(b []byte, outer facts) (n int, whole, ok bool) {
	t := r.tree()
	n, whole, ok = t.parse(b)
	if !ok || !whole || len(t.nodes) == 0 || !r.prepare(t) {
		return n, whole, false
	}
	outer.signs = signs{}
	if len(bytes.TrimLeft(b[n:], " \t\r\n,;`")) > 0 && !r.hasRecord(t, outer) {
		return n, true, false // a program wrote more than one value
	}
	before := r.found + r.raw
	r.depth++
	r.walk(t, 0, &outer)
	r.depth--
	return n, true, r.found+r.raw > before
}

// row passes on the line of an object that was made field by field. It reports false if the object
// has none.
func (r *records) row(t *tree, f *facts, certain bool) bool {
	t.nodes[0].certain = certain
	if t.nodes[0].line = r.lineOf(t, 0); t.nodes[0].line == 0 {
		return false
	}
	f.signs = signs{}
	r.depth++
	r.record(t, 0, f)
	r.depth--
	return true
}

// hasRecord reports whether a value has a line in an envelope.
func (r *records) hasRecord(t *tree, outer facts) bool {
	found := r.found
	r.quiet = true
	r.depth++
	r.walk(t, 0, &outer)
	r.depth--
	has := r.found > found
	r.quiet, r.found = false, found
	return has
}

// nameless is the class of values without a name, attrs that of what contains labels or attributes.
// pairTime and pairLine are those of a list such as ["1763632800000000000","line"].
var (
	nameless keyClass
	attrs    = &keyClass{role: roleAttrs}
	pairTime = &keyClass{time: 1}
	pairLine = &keyClass{line: 1, raw: true}
)

// msgRank is the rank of the name under which zap and klog write their message.
var msgRank = classify("msg").line

// prepare finds the records in a tree: what is or contains one is marked. It reports whether there is
// any. Attributes, rows of tables and pairs become objects with fields first.
func (r *records) prepare(t *tree) bool {
	for i := range t.nodes {
		x := &t.nodes[i]
		switch {
		case x.key == nil:
			x.class = &nameless
		case i < len(t.classes) && t.classes[i] != nil && bytes.Equal(t.classes[i].key, x.key):
			x.class = t.classes[i] // Records of one input are alike.
		default:
			x.class = r.class(x.key)
			if i < 256 {
				for i >= len(t.classes) {
					t.classes = append(t.classes, nil)
				}
				t.classes[i] = x.class
			}
		}
	}
	for i := len(t.nodes) - 1; i >= 0; i-- {
		switch x := &t.nodes[i]; {
		case x.kind == '{' && x.end > int32(i)+1:
			r.foldAttribute(t, int32(i))
		case x.kind == '[' && x.parent >= 0 && t.nodes[x.parent].kind == '[':
			r.foldPair(t, int32(i))
		case x.kind == '[' && x.end == int32(i)+2 && !x.open && x.class.role != roleAttrs && (x.class.role != roleNone || x.class.line+x.class.time > 0):
			if y := &t.nodes[i+1]; y.kind == '"' { // the only value of a field
				x.kind, x.val, x.esc = y.kind, y.val, y.esc
			}
		}
	}
	found := false
	for i := int32(0); i < int32(len(t.nodes)); {
		x := &t.nodes[i]
		isRecord := false
		switch {
		case x.kind == '{' && r.isObject(t, i):
			i = x.end
			continue
		case x.kind == '{':
			r.foldTable(t, i)
			if !x.open {
				x.line = r.lineOf(t, i)
			}
			isRecord = x.line > 0
		case x.kind == '[' && x.parent < 0:
			isRecord = isTexts(t, i)
		}
		for p := i; isRecord && p >= 0 && !t.nodes[p].record; p = t.nodes[p].parent {
			t.nodes[p].record = true
		}
		found = found || isRecord
		if isRecord || x.kind != '{' && x.kind != '[' { // A folded attribute has more nodes.
			i = x.end
		} else {
			i++
		}
	}
	return found
}

// foldAttribute turns an attribute, such as {"key":"k8s.pod.name","value":{"stringValue":"x"}}, into a
// field.
func (r *records) foldAttribute(t *tree, i int32) {
	x := &t.nodes[i]
	var name, value *node
	count := 0
	for c := i + 1; c < x.end && count <= 3; c = t.nodes[c].end {
		count++
		switch y := &t.nodes[c]; {
		case y.class.name && y.kind == '"':
			name = y
		case y.class.value || len(y.key) == 2 && y.key[0] == 's' || bytes.HasSuffix(y.key, []byte("Value")):
			value = y
		}
	}
	if value == nil || value.kind == '{' || value.kind == '[' || count > 3 {
		return
	}
	switch {
	case count == 1 && bytes.HasSuffix(value.key, []byte("Value")):
		x.kind, x.val, x.esc = value.kind, value.val, value.esc
	case name != nil && x.key == nil && len(name.val) > 0:
		x.kind, x.key, x.val, x.esc, x.class = value.kind, name.val, value.val, value.esc, r.class(name.val)
		if x.parent >= 0 && t.nodes[x.parent].kind == '[' {
			t.nodes[x.parent].kind = '{'
		}
	}
}

// foldPair turns a list such as ["1763632800000000000","line",{}] into a record.
func (r *records) foldPair(t *tree, i int32) {
	x := &t.nodes[i]
	if i+1 >= x.end || x.open {
		return
	}
	first := &t.nodes[i+1]
	if first.kind == '{' || first.kind == '[' || first.end >= x.end || t.nodes[first.end].kind != '"' {
		return
	}
	if _, _, ok := epoch(first.val); !ok {
		if n, _ := stampLen(first.val); n == 0 {
			return
		}
	}
	x.kind, x.certain = '{', true
	first.class, t.nodes[first.end].class = pairTime, pairLine
	for c := t.nodes[first.end].end; c < x.end; c = t.nodes[c].end {
		t.nodes[c].class = attrs
	}
}

// foldTable turns the rows of an object with columns and rows into records.
func (r *records) foldTable(t *tree, i int32) {
	x := &t.nodes[i]
	var names []*keyClass
	rows, hasLine := int32(-1), false
	for c := i + 1; c < x.end; c = t.nodes[c].end {
		y := &t.nodes[c]
		switch string(y.key) {
		case "columns", "fields":
			for k := c + 1; k < y.end; k = t.nodes[k].end {
				name := t.nodes[k].val
				for f := k + 1; f < t.nodes[k].end; f = t.nodes[f].end {
					if key := string(t.nodes[f].key); key == "name" || key == "text" {
						name = t.nodes[f].val
						break
					}
				}
				names = append(names, r.class(name))
				hasLine = hasLine || r.class(name).line > 0
			}
		case "rows", "values", "data":
			if y.kind == '[' && c+1 < y.end && t.nodes[c+1].first == '[' {
				rows = c
			}
		}
	}
	if rows < 0 || !hasLine {
		return
	}
	for row := rows + 1; row < t.nodes[rows].end; row = t.nodes[row].end {
		t.nodes[row].kind, t.nodes[row].certain = '{', true
		at := 0
		for c := row + 1; c < t.nodes[row].end && at < len(names); c = t.nodes[c].end {
			t.nodes[c].key, t.nodes[c].class = names[at].key, names[at]
			at++
		}
	}
}

// isObject reports whether a JSON object is one of Kubernetes, such as an Event.
func (r *records) isObject(t *tree, i int32) bool {
	for c := i + 1; c < t.nodes[i].end; c = t.nodes[c].end {
		if y := &t.nodes[c]; y.class.object && (y.kind == '"' || y.kind == '{') {
			return true
		}
	}
	return false
}

// isTexts reports whether an array consists of lines.
func isTexts(t *tree, i int32) bool {
	x := &t.nodes[i]
	for c := i + 1; c < x.end; c = t.nodes[c].end {
		if t.nodes[c].kind != '"' {
			return false
		}
	}
	return x.end > i+1
}

// lineOf returns the field of an object that has the line, zero if there is none.
func (r *records) lineOf(t *tree, i int32) (best int32) {
	rank := uint8(255)
	x := &t.nodes[i]
	for c := i + 1; c < x.end; c = t.nodes[c].end {
		y := &t.nodes[c]
		k := y.class
		switch {
		case k.line == 0 || k.line >= rank || y.kind == '[' || y.kind == '0':
		case y.kind == '{' && !(r.markup && r.depth == 0) && (x.certain || r.isOwn(t, c)), y.kind == '"' && (x.certain || len(y.val) > 0):
			best, rank = c, k.line
		}
	}
	return best
}

// isOwn reports whether an object has the fields that a program logs, so that it is the line itself.
func (r *records) isOwn(t *tree, i int32) bool {
	own, line := false, false
	for c := i + 1; c < t.nodes[i].end; c = t.nodes[c].end {
		y := &t.nodes[c]
		k := y.class
		if k.role != roleNone && k.role != roleName && (k.kube || y.kind == '{') || string(y.key) == "kubernetes" {
			return false
		}
		own = own || k.own || k.level || k.time > 0
		line = line || k.line > 0 && !k.raw && y.kind == '"'
	}
	return own && line
}

// walk passes on the records at and below a node.
func (r *records) walk(t *tree, i int32, outer *facts) {
	x := &t.nodes[i]
	switch {
	case x.line > 0:
		r.record(t, i, outer)
		return
	case x.kind == '[' && x.parent < 0 && isTexts(t, i):
		for c := i + 1; c < x.end; c = t.nodes[c].end {
			r.pass(outer, r.text(&t.nodes[c]))
		}
		return
	}
	ctx := *outer
	r.gatherAround(t, i, &ctx)
	for c := i + 1; c < x.end; c = t.nodes[c].end {
		switch y := &t.nodes[c]; {
		case y.record && !y.open:
			r.walk(t, c, &ctx)
		case x.kind == '[' && y.kind == '{' && !y.open:
			// Beside records, what is no record is a line too: nothing is lost.
			r.whole(&ctx, y.val)
		}
	}
}

// gatherAround adds what a container says about the records in it: an object by its other fields, a
// list such as [1763632800.1, {...}] by the time at its start.
func (r *records) gatherAround(t *tree, i int32, f *facts) {
	x := &t.nodes[i]
	for c := i + 1; c < x.end && x.kind == '{'; c = t.nodes[c].end {
		if y := &t.nodes[c]; !y.record && !y.open {
			r.gather(t, c, nil, f)
		}
	}
	if x.kind == '{' || i+1 >= x.end {
		return
	}
	c := i + 1
	if t.nodes[c].kind == '[' {
		c++
	}
	if c < x.end && t.nodes[c].kind != '{' && t.nodes[c].kind != '[' {
		if _, _, ok := epoch(t.nodes[c].val); ok {
			f.stamp, f.rank = t.nodes[c].val, 1
		}
	}
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
			if y := &t.nodes[c]; y.kind == '"' { // a tag such as pod_name:x
				if at := bytes.IndexAny(y.val, ":="); at > 0 {
					if k := r.class(y.val[:at]); k.role != roleNone && k.role != roleName && k.role != roleAttrs {
						r.fact(k, nil, y.val[at+1:], false, f)
					}
				}
			} else if y.kind == '{' && k.role == roleNone {
				r.gather(t, c, parent, f)
			}
		}
	default:
		r.fact(k, parent, x.val, x.esc, f)
	}
}

// fact adds what one field says.
func (r *records) fact(k, parent *keyClass, val []byte, esc bool, f *facts) {
	if k.time > 0 && (f.stamp == nil || k.time < f.rank) && len(val) > 0 {
		f.stamp, f.rank, f.timed = val, k.time, true
	}
	which := k.role
	if (which == roleStream || which == roleFile || which == roleName) && (string(val) == "stdout" || string(val) == "stderr") {
		f.stream, f.streamed, f.nested = val[3], true, true
		return
	}
	if which == roleName && parent != nil {
		which = parent.role
	}
	switch which {
	case rolePod, roleNamespace, roleContainer:
		switch {
		case esc || !isName(val):
			r.pathFact(val, f)
			return
		case len(val) >= 64 && which == roleContainer:
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
			f.partial = val[0] == 'P'
		}
	case roleFile, roleStream:
		r.pathFact(val, f)
	case roleAttrs:
		if !r.pathFact(val, f) {
			r.attributes(val, esc, f)
		}
	}
}

// pathFact adds the place in the path or the tag of a log.
func (r *records) pathFact(val []byte, f *facts) bool {
	p, ok := placeOfPath(val)
	if ok {
		f.file, f.nested, f.placed = p, true, true
	}
	return ok
}

// attributes reads labels that are written as a text: JSON, or {a="b", c="d"}.
func (r *records) attributes(val []byte, esc bool, f *facts) {
	if esc {
		val = unescape(nil, val)
	}
	if len(val) < 5 || val[0] != '{' {
		return
	}
	var t tree
	if _, whole, ok := t.parse(val); ok && whole {
		r.prepare(&t)
		for c := int32(1); c < int32(len(t.nodes)); c = t.nodes[c].end {
			r.gather(&t, c, attrs, f)
		}
		return
	}
	r.labelSet(val, f)
}

// labelSet reads {a="b", c="d"} and {a:b, c:d}, and returns its length.
func (r *records) labelSet(b []byte, f *facts) int {
	for i := 1; i < len(b); {
		switch {
		case b[i] == ' ' || b[i] == ',':
			i++
			continue
		case b[i] == '}':
			return i + 1
		}
		k := bytes.IndexAny(b[i:], "=:} ")
		if k <= 0 || b[i+k] == '}' || b[i+k] == ' ' {
			return 0
		}
		key := bytes.Trim(b[i:i+k], `"`)
		if i += k + 1; i < len(b) && b[i] == ' ' {
			i++
		}
		val, _, next, ok := valueAt(b, i, ",} ")
		if !ok {
			return 0
		}
		i = next
		r.fact(r.class(key), attrs, val, false, f)
	}
	return 0
}

// valueAt reads the value at b[i], which is quoted or ends before one of some bytes.
func valueAt(b []byte, i int, ends string) (val []byte, esc bool, next int, ok bool) {
	if i < len(b) && b[i] == '"' {
		return quoted(b, i)
	}
	k := bytes.IndexAny(b[i:], ends)
	if k < 0 {
		k = len(b) - i
	}
	return b[i : i+k], false, i + k, true
}

func (r *records) text(x *node) []byte {
	if !x.esc {
		return x.val
	}
	buf := unescape(r.texts[r.depth-1][:0], x.val)
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
		if r.compact.Reset(); json.Compact(&r.compact, b) != nil {
			r.compact.Reset()
			r.compact.Write(bytes.ReplaceAll(b, []byte("\n"), []byte(" ")))
		}
		b = r.compact.Bytes()
	}
	r.wrote(f, b)
}

// record passes on the line of an object, or the object if a program wrote it.
func (r *records) record(t *tree, i int32, ctx *facts) {
	x := &t.nodes[i]
	l := &t.nodes[x.line]
	certain := x.certain || r.markup && r.depth == 1
	f := r.frame(ctx)
	own, level, foreign := false, false, 0
	for c := i + 1; c < x.end; c = t.nodes[c].end {
		if c == x.line {
			continue
		}
		m := t.nodes[c].class
		own, level = own || m.own, level || m.level
		if m.role == roleNone && m.time == 0 && m.line == 0 && !m.level {
			foreign++
		}
	}
	for c := i + 1; c < x.end; c = t.nodes[c].end {
		m := t.nodes[c].class
		if c != x.line && (!own || certain || m.kube || m.role == roleStream || m.role == roleAttrs || m.time > 0) {
			r.gather(t, c, nil, f) // others say what a program works on
		}
	}
	var text []byte
	if l.kind != '{' {
		text = r.text(l)
	}
	switch {
	case !certain && !r.trusted(f, l.class, own, level, foreign, text):
		r.written(t, i, ctx)
	case l.kind == '{':
		r.whole(f, l.val)
	case !certain && own && (level || foreign > 2) && !l.class.raw && !looksLogged(text):
		r.whole(f, x.val) // a shipper has merged the fields of the program with its own
	default:
		r.pass(f, text)
	}
}

// written passes on, once, the value around a node that a program wrote: the whole one, or
// the element of a list.
func (r *records) written(t *tree, i int32, f *facts) {
	for t.nodes[i].parent >= 0 && t.nodes[t.nodes[i].parent].first != '[' {
		i = t.nodes[i].parent
	}
	if x := &t.nodes[i]; !x.passed {
		x.passed = !r.quiet
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
	return f.timed && !level && !f.object && foreign <= 2
}

// looksLogged reports whether a text begins as the line of a log: with a header of klog, a
// time, a level, or as JSON.
func looksLogged(b []byte) bool {
	h := headerOf(b)
	return h != none && h != word
}

// where returns where a line was written, by its facts.
func (f *facts) where() Place {
	p := f.file
	to := p.fields()
	for i, v := range f.place[rolePod:] {
		if len(v) > 0 {
			*to[i] = string(v)
		}
	}
	if p.Pod != "" { // The fields of syslog are those of its container.
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
		for _, v := range f.file.fields() {
			dst = append(append(dst, *v...), 0)
		}
	}
	return dst
}
