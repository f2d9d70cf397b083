package envelope

import (
	"bytes"
	"encoding/json"
)

// facts contains the data about a line that the layers of its envelope state.
type facts struct {
	place [roleTransport + 1][]byte
	file  Place // origin that a path or the words at the start of the line state
	stamp []byte
	// zoneless reports whether stamp is imprecise and may be in local time. A time in the line itself is then better.
	zoneless bool
	rank     uint8 // rank of the name of the field from which stamp was read
	stream   byte  // 'o' for stdout, 'e' for stderr
	partial  bool  // whether the next line of the container continues the line
	signs
}

func (f *facts) clone() facts {
	c := *f
	c.stamp = bytes.Clone(f.stamp)
	for i, v := range f.place {
		c.place[i] = bytes.Clone(v)
	}
	return c
}

// signs are properties of an object that indicate whether the object is an envelope.
type signs struct {
	kube     bool  // whether the name of a field says that the field describes a container
	nested   bool  // whether the fields about the origin are in a nested object
	placed   bool  // whether some field names an origin
	timed    bool  // whether a field is a time
	streamed bool  // whether the value of a field is stdout or stderr
	flat     uint8 // number of fields that name an origin with one plain word
	object   bool  // whether a field may name an object on which a program works, and not the origin
}

// records extracts log lines from values with named fields, whatever the order and nesting of the fields is. A value is
// JSON, or anything with columns or keys. A record is an object with a field that contains a log line. records is not
// safe for concurrent use.
type records struct {
	classes map[string]*keyClass
	trees   []*tree // a tree for each level of JSON inside strings of JSON
	depth   int
	out     func(f *facts, text []byte) // called with each line that is a field of a record
	wrote   func(f *facts, text []byte) // called with each JSON value that a program wrote
	quiet   bool                        // whether lines are only counted
	found   int                         // number of lines that were fields of records
	raw     int                         // number of values that are themselves lines
}

func (r *records) class(raw []byte) *keyClass {
	return remember(&r.classes, raw, func(raw []byte) *keyClass {
		c := classify(string(unescape(nil, raw)))
		c.key = bytes.Clone(raw)
		return c
	})
}

func (r *records) tree() *tree {
	for r.depth >= len(r.trees) {
		r.trees = append(r.trees, new(tree))
	}
	return r.trees[r.depth]
}

// read passes the lines in a JSON value to out. If the value contains no line or is itself a line, read returns false
// and does not call out.
func (r *records) read(b []byte, outer facts) (n int, how ending, ok bool) {
	t := r.tree()
	if n, how = t.parse(b); how != complete || !r.prepare(t) {
		return n, how, false
	}
	outer.signs = signs{}
	if len(bytes.TrimLeft(b[n:], " \t\r\n,;`")) > 0 {
		found := r.found
		r.quiet = true
		r.walkBelow(t, 0, outer)
		has := r.found > found
		if r.quiet, r.found = false, found; !has {
			return n, how, false // A program wrote more than one value.
		}
	}
	before := r.found + r.raw
	r.walkBelow(t, 0, outer)
	return n, how, r.found+r.raw > before
}

// walkBelow passes on the records at a node and below it. The lines of these records may contain further JSON.
func (r *records) walkBelow(t *tree, i int32, outer facts) {
	r.depth++
	r.walk(t, i, &outer)
	r.depth--
}

// row passes on the line of an object that was built field by field. It returns false if the object has no line.
func (r *records) row(t *tree, f facts, certain bool) bool {
	x := &t.nodes[0]
	x.certain = certain
	if x.line = r.lineOf(t, 0); x.line > 0 {
		f.signs = signs{}
		r.walkBelow(t, 0, f)
	}
	return x.line > 0
}

// nameless is the class of values without a name, and attrs is the class of fields that contain labels. pairTime and
// pairLine are the classes in a list such as ["1763632800000000000","line"].
var (
	nameless keyClass
	attrs    = &keyClass{role: roleAttrs}
	pairTime = &keyClass{time: 1}
	pairLine = &keyClass{line: 1, raw: true}
)

// msgRank is the rank of the name under which zap and klog write their message.
var msgRank = classify("msg").line

// prepare marks each value in a tree that is or contains a record, and reports whether there is one. Before that, it
// converts attributes, rows of tables and pairs to objects with fields.
func (r *records) prepare(t *tree) bool {
	for i := range t.nodes {
		if x := &t.nodes[i]; x.key == nil {
			x.class = &nameless
		} else {
			x.class = r.class(x.key)
		}
	}
	for i := int32(len(t.nodes)) - 1; i >= 0; i-- {
		switch x := &t.nodes[i]; {
		case x.kind == '{':
			r.foldAttribute(t, i)
		case x.kind == '[' && x.parent >= 0 && t.nodes[x.parent].kind == '[':
			foldPair(t, i)
		case x.kind == '[' && x.end == i+2 && !x.open && x.class.role != roleAttrs && (x.class.role != roleNone || x.class.line+x.class.time > 0):
			if y := &t.nodes[i+1]; y.kind == '"' { // the value is the only one of its field
				x.kind, x.val, x.esc = y.kind, y.val, y.esc
			}
		}
	}
	found := false
	for i := int32(0); i < int32(len(t.nodes)); {
		x := &t.nodes[i]
		isRecord := false
		switch {
		case x.kind == '{' && isObject(t, i):
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

// foldAttribute converts {"key":"k8s.pod.name","value":{"stringValue":"x"}} to a field.
func (r *records) foldAttribute(t *tree, i int32) {
	x := &t.nodes[i]
	var name, value *node
	count := 0
	for _, y := range t.items(i) {
		if count++; count > 3 {
			break
		}
		switch {
		case y.class.name && y.kind == '"':
			name = y
		case y.class.value || bytes.HasSuffix(y.key, []byte("Value")):
			value = y
		}
	}
	switch {
	case value == nil || value.kind == '{' || value.kind == '[' || count > 3:
	case count == 1 && bytes.HasSuffix(value.key, []byte("Value")):
		x.kind, x.val, x.esc = value.kind, value.val, value.esc
	case name != nil && x.key == nil && len(name.val) > 0:
		x.kind, x.key, x.val, x.esc, x.class = value.kind, name.val, value.val, value.esc, r.class(name.val)
		if x.parent >= 0 && t.nodes[x.parent].kind == '[' {
			t.nodes[x.parent].kind = '{'
		}
	}
}

// foldPair converts a list such as ["1763632800000000000","line",{}] to a record.
func foldPair(t *tree, i int32) {
	x := &t.nodes[i]
	if x.open || x.end < i+3 || t.nodes[i+2].kind != '"' || t.nodes[i+1].kind == '{' || t.nodes[i+1].kind == '[' {
		return
	}
	if _, _, ok := new(clock).parse(t.nodes[i+1].val); !ok {
		return
	}
	x.kind, x.certain = '{', true
	t.nodes[i+1].class, t.nodes[i+2].class = pairTime, pairLine
	for c := i + 3; c < x.end; c = t.nodes[c].end {
		t.nodes[c].class = attrs
	}
}

// foldTable converts the rows of an object with columns and rows to records.
func (r *records) foldTable(t *tree, i int32) {
	var names []*keyClass
	rows, hasLine := int32(-1), false
	for c, y := range t.items(i) {
		switch string(y.key) {
		case "columns", "fields":
			for k, column := range t.items(c) {
				name := column.val
				for _, f := range t.items(k) {
					if string(f.key) == "name" || string(f.key) == "text" {
						name = f.val
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
	for i, row := range t.items(rows) {
		row.kind, row.certain = '{', true
		at := 0
		for _, cell := range t.items(i) {
			if at < len(names) {
				cell.key, cell.class = names[at].key, names[at]
			}
			at++
		}
	}
}

func isObject(t *tree, i int32) bool {
	return t.any(i, func(y *node) bool { return y.class.object && (y.kind == '"' || y.kind == '{') })
}

func isTexts(t *tree, i int32) bool {
	return t.nodes[i].kind == '[' && t.nodes[i].end > i+1 && !t.any(i, func(y *node) bool { return y.kind != '"' })
}

func (r *records) lineOf(t *tree, i int32) (best int32) {
	rank := uint8(255)
	certain := t.nodes[i].certain
	for c, y := range t.items(i) {
		if y.class.line == 0 || y.class.line >= rank {
			continue
		}
		if y.kind == '"' && (certain || len(y.val) > 0) || y.kind == '{' && (certain || isOwn(t, c)) {
			best, rank = c, y.class.line
		}
	}
	return best
}

// isOwn reports whether an object has fields that programs log. Such an object is itself the log line.
func isOwn(t *tree, i int32) bool {
	line := func(y *node) bool { return y.class.line > 0 && !y.class.raw && y.kind == '"' }
	own := func(y *node) bool { return y.class.own || y.class.level || y.class.time > 0 }
	place := func(y *node) bool {
		return y.class.role != roleNone && y.class.role != roleName && (y.class.kube || y.kind == '{') || string(y.key) == "kubernetes"
	}
	return t.any(i, line) && t.any(i, own) && !t.any(i, place)
}

// walk passes on the records at and below a node.
func (r *records) walk(t *tree, i int32, outer *facts) {
	x := &t.nodes[i]
	switch {
	case x.line > 0:
		r.record(t, i, *outer)
		return
	case x.parent < 0 && isTexts(t, i):
		for _, y := range t.items(i) {
			r.pass(outer, textOf(y))
		}
		return
	}
	ctx := *outer
	r.gatherAround(t, i, &ctx)
	for c, y := range t.items(i) {
		switch {
		case y.record && !y.open:
			r.walk(t, c, &ctx)
		case x.kind == '[' && y.kind == '{' && !y.open:
			r.passJSON(&ctx, y.val) // Nothing beside records is lost.
		}
	}
}

// gatherAround adds the data that a container states about the records in it. An object states them in its other
// fields. A list such as [1763632800.1, {...}] states the time at its start.
func (r *records) gatherAround(t *tree, i int32, f *facts) {
	x := &t.nodes[i]
	for c, y := range t.items(i) {
		if x.kind == '{' && !y.record && !y.open {
			r.gather(t, c, nil, f)
		}
	}
	if x.kind == '{' || x.end == i+1 {
		return
	}
	c := i + 1
	if t.nodes[c].kind == '[' {
		c++
	}
	if c < x.end && t.nodes[c].kind != '{' && t.nodes[c].kind != '[' {
		if _, _, ok := parseEpoch(t.nodes[c].val); ok {
			f.stamp, f.rank = t.nodes[c].val, 1
		}
	}
}

// gather adds the data that a field and the fields in it state about the origin and the time.
func (r *records) gather(t *tree, i int32, parent *keyClass, f *facts) {
	x := &t.nodes[i]
	k := x.class
	switch x.kind {
	case '{':
		if k.describesContainer && parent != nil && (parent.kube || parent.role == rolePod || parent.role == roleNamespace) {
			return
		}
		if parent != nil && parent.kube && !k.kube {
			kube := *k
			kube.kube = true
			k = &kube
		}
		for c := range t.items(i) {
			r.gather(t, c, k, f)
		}
	case '[':
		for c, y := range t.items(i) {
			if y.kind == '"' { // a tag such as pod_name:x
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
		case esc || !IsName(val):
			f.addPath(val)
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
		f.partial = f.partial && string(val) != "F" || string(val) == "P"
	case roleFile, roleStream:
		f.addPath(val)
	case roleAttrs:
		if !f.addPath(val) {
			r.attributes(val, esc, f)
		}
	}
}

func (f *facts) addPath(val []byte) bool {
	p, ok := placeOfPath(val)
	if ok {
		f.file, f.nested, f.placed = p, true, true
	}
	return ok
}

// attributes reads labels from a string, which is JSON or {a="b", c="d"}.
func (r *records) attributes(val []byte, esc bool, f *facts) {
	if esc {
		val = unescape(nil, val)
	}
	if len(val) < 5 || val[0] != '{' {
		return
	}
	var t tree
	if _, how := t.parse(val); how != complete {
		r.labelSet(val, f)
		return
	}
	r.prepare(&t)
	for c := range t.items(0) {
		r.gather(&t, c, attrs, f)
	}
}

// labelSet reads {a="b", c="d"} or {a:b, c:d}, and returns its length.
func (r *records) labelSet(b []byte, f *facts) int {
	for i := 1; i < len(b); {
		switch b[i] {
		case ' ', ',':
			i++
			continue
		case '}', ']':
			return i + 1
		}
		k := bytes.IndexAny(b[i:], "=:} ")
		if k <= 0 || b[i+k] == '}' || b[i+k] == ' ' {
			return 0
		}
		key := bytes.Trim(b[i:i+k], `"`)
		val, _, next, ok := valueAt(b, skipSpace(b, i+k+1), ",} ]")
		if !ok {
			return 0
		}
		i = next
		r.fact(r.class(key), attrs, val, false, f)
	}
	return 0
}

// valueAt reads the value at b[i]. The value is quoted, or ends before one of the bytes in ends.
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

func textOf(x *node) []byte {
	if x.esc {
		return unescape(make([]byte, 0, len(x.val)), x.val)
	}
	return x.val
}

func (r *records) pass(f *facts, text []byte) {
	if r.found++; !r.quiet {
		r.out(f, text)
	}
}

// passJSON passes on, as one line, a JSON object that a program wrote.
func (r *records) passJSON(f *facts, b []byte) {
	if r.raw++; r.quiet {
		return
	}
	if bytes.IndexByte(b, '\n') >= 0 {
		var compact bytes.Buffer
		if json.Compact(&compact, b) != nil {
			compact.Reset()
			compact.Write(bytes.ReplaceAll(b, []byte("\n"), []byte(" ")))
		}
		b = compact.Bytes()
	}
	r.wrote(f, b)
}

// record passes on the line of an object. If a program wrote the object, record passes on the object itself.
func (r *records) record(t *tree, i int32, f facts) {
	x := &t.nodes[i]
	l := &t.nodes[x.line]
	certain := x.certain
	outer := f
	own, level, foreign := false, false, 0
	for c, y := range t.items(i) {
		if m := y.class; c != x.line {
			own, level = own || m.own, level || m.level
			foreign += btoi(m.role == roleNone && m.time == 0 && m.line == 0 && !m.level)
		}
	}
	for c, y := range t.items(i) {
		m := y.class
		if c != x.line && (!own || certain || m.kube || m.role == roleStream || m.role == roleAttrs || m.time > 0) {
			r.gather(t, c, nil, &f) // other fields of a program describe the object on which it works
		}
	}
	var text []byte
	if l.kind != '{' {
		text = textOf(l)
	}
	switch {
	case !certain && !f.isEnvelope(l.class, own, level, foreign, text):
		for t.nodes[i].parent >= 0 && t.nodes[t.nodes[i].parent].first != '[' {
			i = t.nodes[i].parent
		}
		if x := &t.nodes[i]; !x.passed { // the whole value that the program wrote, once
			x.passed = !r.quiet
			r.passJSON(&outer, x.text)
		}
	case l.kind == '{':
		r.passJSON(&f, l.val)
	case !certain && own && (level || foreign > 2) && !l.class.raw && !looksLogged(text):
		r.passJSON(&f, x.val) // a shipper has merged the program's fields with its own
	default:
		r.pass(&f, text)
	}
}

// isEnvelope reports whether an object with these facts is an envelope. Otherwise a program wrote the object itself.
func (f *facts) isEnvelope(line *keyClass, own, level bool, foreign int, text []byte) bool {
	switch {
	case text != nil && looksLogged(text) && (f.placed || f.streamed || line.raw || f.timed && !(own && level)):
		return true
	case f.placed && (f.kube || f.place[roleIdentifier] != nil || f.place[roleUnit] != nil):
		return true
	case own:
		return false
	case f.nested && (f.placed || f.streamed), line.raw && (f.timed || f.placed), f.flat >= 2 && !level:
		return true
	case f.placed && f.place[rolePod] != nil && f.place[roleContainer] != nil:
		return !level || line.line != msgRank
	}
	return f.timed && !level && !f.object && foreign <= 2
}

// looksLogged reports whether a text begins with a time, with a header of klog, or as JSON.
func looksLogged(b []byte) bool { return headerOf(b) > word }

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

// appendKey appends a key that is different for different origins.
func (f *facts) appendKey(dst []byte) []byte {
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
