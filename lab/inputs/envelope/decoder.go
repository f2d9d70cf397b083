// Package envelope takes off lines of logs what tools have wrapped around them: shippers,
// exports, viewers, chats and mails. It recognises an envelope by its shape, in the lines of
// an input, and reads the time and the place of each line from it.
package envelope

import (
	"bytes"
	"regexp"
	"slices"
	"time"

	"crowsnest/matcher"
)

// Line is a line as its container wrote it, without its end.
type Line struct {
	// Place is where it was written. It is one pointer for all lines of one place.
	Place *Place
	// Time is when it was written, as the envelope says; zero if it does not.
	Time   time.Time
	Stderr bool
	// Partial means that the next line of the place continues the line.
	Partial bool
	// Continues means that the line belongs to the record of the line before it.
	Continues bool
	// Understood means that the line is as lines of logs are, or has an envelope.
	Understood bool
	// Text is valid until the function that got the line returns.
	Text []byte
}

// Decoder takes the envelope off the lines of one input. It is not safe for concurrent use.
type Decoder struct {
	emit       func(Line)
	now        time.Time
	stamps     stamps
	rec        records
	chain      []step
	placed     bool // The chain states times or places.
	copied     bool // Its times are those of a copy of the lines.
	decided    bool
	looked     map[outline]int // number of looks for an envelope at lines that begin so
	rest       []byte
	doc        document
	table      *sheet
	entry      entry
	printed    printed
	places     map[string]*Place
	origins    map[string]*origin // what is known of words before lines
	pods       map[string]bool
	units      map[string]string
	services   map[string]*Place
	ruby       []byte
	containers bool   // The name of a container follows that of a pod.
	closing    []byte // what ended the newest element of XML or document of YAML
	key        []byte
	at         *Place // place of the newest line
	atKey      []byte
	last       facts // the time of the newest line that had the envelope
	line0      facts // facts of the present line
	lastTime   time.Time
	scratch    []byte
	width      int    // width of the terminal that has cut the lines; zero if none has
	cut        []byte // the line so far that was cut
	buf        []byte
	dump       *dump // nil if the input is no dump
	base       Place // place of the lines that follow, as a line before them states
	docker     bool  // lines of Docker end with a newline
	raw        []byte
	changed    bool
	known      bool // the line before was understood
	opaque     bool // The newest line that was looked at is one with another in it.
	more       bool // the line belongs to the record of the line before it
	counts     Counts
}

// Counts are of the lines that were emitted.
type Counts struct {
	Lines, Understood int64
}

// New returns a decoder that passes lines to emit. now supplies the year of times without one.
func New(now time.Time, emit func(Line)) *Decoder {
	d := &Decoder{emit: emit, now: now, places: map[string]*Place{}}
	d.stamps.now = now
	d.rec = records{classes: map[string]*keyClass{}, out: d.inner, wrote: func(f *facts, text []byte) { d.out(f, text, true) }}
	return d
}

// Changed reports whether a line so far was not as a container wrote it.
func (d *Decoder) Changed() bool { return d.changed }

// Records returns how many lines were fields of records.
func (d *Decoder) Records() int { return d.rec.found }

// Counts returns how many lines were emitted.
func (d *Decoder) Counts() Counts { return d.counts }

// maxLine bounds a line that is looked at as a whole, and maxSample the lines that decide what
// the envelope is.
const (
	maxLine   = 1 << 20
	maxSample = 64
)

// Write decodes a part of the input. A line without its end waits for the next part.
func (d *Decoder) Write(b []byte) {
	if d.doc.open() && len(d.rest) == 0 && len(d.doc.closing) == 0 && bytes.IndexByte(b, '\n') < 0 {
		d.doc.add(d, b)
		return
	}
	if len(d.rest) > 0 {
		k := bytes.IndexByte(b, '\n')
		if k < 0 && len(d.rest)+len(b) < maxLine {
			d.rest = append(d.rest, b...)
			return
		}
		d.rest = append(d.rest, b[:k+1]...)
		rest := d.rest
		d.rest = nil
		if k < 0 {
			d.piece(append(rest, b...))
			return
		}
		d.lines(rest)
		d.rest, b = rest[:0], b[k+1:]
	}
	end := bytes.LastIndexByte(b, '\n') + 1
	d.lines(b[:end])
	if b = b[end:]; len(b) >= maxLine {
		d.piece(b)
		return
	}
	d.rest = append(d.rest[:0], b...)
}

// piece takes a part of a line that is too long to wait for its end.
func (d *Decoder) piece(b []byte) {
	if d.doc.open() {
		d.doc.add(d, b)
		return
	}
	if c := b[skipSpace(b, 0)%len(b)]; c == '{' || c == '[' {
		d.doc.start(d, b, nil, &d.last)
		return
	}
	d.line(b, nil)
}

// Close decodes what waits for more.
func (d *Decoder) Close() {
	if len(d.rest) > 0 {
		d.lines(d.rest)
		d.rest = nil
	}
	d.doc.end(d)
	d.entry.end(d)
	d.printed.end(d)
	if d.table != nil {
		d.table.end(d)
	}
}

// lines decodes whole lines.
func (d *Decoder) lines(b []byte) {
	if len(b) == 0 {
		return
	}
	if !d.decided {
		d.decide(b)
	}
	for len(b) > 0 {
		k := bytes.IndexByte(b, '\n')
		line, rest := b, []byte(nil)
		if k >= 0 {
			line, rest = b[:k], b[k+1:]
		}
		if line, b = trimCR(line), rest; d.width > 0 {
			if line = d.join(line, rest); line == nil {
				continue
			}
		}
		d.line(line, rest)
	}
}

func trimCR(b []byte) []byte {
	if k := len(b) - 1; k >= 0 && b[k] == '\r' {
		return b[:k]
	}
	return b
}

// decide looks for the envelope of the lines that follow.
func (d *Decoder) decide(b []byte) {
	var sample [][]byte
	for line := range bytes.Lines(b) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if d.decided = true; len(line) > 64<<10 {
			line = line[:64<<10]
		}
		if sample = append(sample, line); len(sample) == maxSample {
			break
		}
	}
	if len(sample) > 0 {
		d.width = widthOf(sample)
		d.chain, d.placed = d.detect(sample)
		d.copied = d.isCopied(d.chain, sample)
	}
}

// The lines around those of each container in `kubectl cluster-info dump`.
const (
	SectionStart = "==== START logs for container "
	sectionEnd   = "==== END logs for container "
)

// Sections says that the input is the dump of one pod, with a section for each container.
func (d *Decoder) Sections(namespace, pod string) {
	d.dump, d.changed = &dump{behind: " of pod " + namespace + "/" + pod + " ====", pod: pod}, true
}

// dump is the state of reading sections.
type dump struct {
	behind, pod string
	container   string // container of the present section, or ""
}

// section reads the lines around a section. Within one, a line that looks like the start of
// another is a line of the container.
func (s *dump) section(line []byte) bool {
	for _, before := range []string{SectionStart, sectionEnd} {
		rest, ok := bytes.CutPrefix(line, []byte(before))
		if !ok {
			continue
		}
		name, ok := bytes.CutSuffix(rest, []byte(s.behind))
		switch {
		case !ok || !isName(name):
		case before == SectionStart && s.container == "":
			s.container = string(name)
			return true
		case before == sectionEnd && s.container == string(name):
			s.container = ""
			return true
		}
	}
	return false
}

// heading reads a line such as ==> /var/log/pods/... <==, which tail writes.
func (d *Decoder) heading(line []byte) bool {
	path, ok := bytes.CutPrefix(line, []byte("==> "))
	if !ok {
		return false
	}
	path, ok = bytes.CutSuffix(path, []byte(" <=="))
	if !ok {
		return false
	}
	p, ok := placeOfPath(path)
	if !ok && d.base == (Place{}) {
		return false
	}
	if d.base = p; !ok {
		d.base = Place{Name: string(path)}
	}
	d.decided = false // another log follows
	return true
}

// commonLabels matches what logcli and Grafana write before lines whose labels are all the same.
var commonLabels = regexp.MustCompile(`^(?:\d{4}/\d\d/\d\d \d\d:\d\d:\d\d )?Common labels: (\{.+\})$`)

// common reads labels of all lines. Further below, a line that looks the same is one of a container.
func (d *Decoder) common(line []byte) bool {
	if d.counts.Lines > 4 {
		return false
	}
	d.scratch = stripEscapes(d.scratch[:0], line)
	m := commonLabels.FindSubmatch(bytes.TrimPrefix(d.scratch, []byte("\ufeff")))
	if m == nil {
		return false
	}
	var f facts
	d.rec.attributes(m[1], false, &f)
	d.base, d.changed = f.where(), true
	return true
}

// line decodes a line. rest are the lines after it that are known.
func (d *Decoder) line(line, rest []byte) {
	f := &d.line0
	*f = facts{file: d.base}
	d.raw = line
	switch {
	case d.dump != nil && d.dump.section(line):
		d.base = Place{}
		if d.dump.container != "" {
			d.base = Place{Pod: d.dump.pod, Container: d.dump.container}
		}
		return
	case d.dump != nil:
		d.out(f, line, false)
		return
	case len(line) > 8 && line[0] == '=' && d.heading(line):
		d.decide(rest)
		return
	case d.common(line):
		return
	}
	text, ok := cut(d.chain, line, f)
	if !ok {
		d.foreign(line, text, f, rest)
		return
	}
	if !d.placed && !d.doc.open() && d.table == nil && !d.entry.open() && !d.printed.open && d.wrong(text, line, rest) {
		return
	}
	if len(d.chain) > 0 {
		if d.copied {
			f.stamp = nil
		}
		d.keep(f)
	}
	d.content(text, f, rest)
}

// keep copies the time of the newest envelope, because its line is gone later.
func (d *Decoder) keep(f *facts) {
	d.last.stamp = append(d.last.stamp[:0], f.stamp...)
	d.last.zoneless, d.last.rank = f.zoneless, f.rank
	if len(f.stamp) == 0 {
		d.last.stamp = nil
	}
}

// wrong looks for an envelope at a line that should have none, and does not look like one that
// a program wrote.
func (d *Decoder) wrong(text, line, rest []byte) bool {
	h := headerOf(text)
	return len(text) > 0 && (h <= stamp || h == syslog || isLabelled(text)) && d.look(line, rest, true)
}

// look looks for another envelope from a line on, less often the more lines like this one had none. It
// reports whether there is one, and decodes the line then. With deeper it must have more parts than the
// present one.
func (d *Decoder) look(line, rest []byte, deeper bool) bool {
	o := outlineOf(line)
	n := d.looked[o] + 1
	if d.looked == nil || len(d.looked) > maxKnown {
		d.looked = map[outline]int{}
	}
	if d.looked[o] = n; n > 4 && n&(n-1) != 0 {
		return false
	}
	sample := [][]byte{line}
	for l := range bytes.Lines(rest) {
		if len(sample) == 16 {
			break
		}
		if len(bytes.TrimSpace(l)) > 0 && len(l) < 64<<10 {
			sample = append(sample, l)
		}
	}
	chain, placed := d.detect(sample)
	if deeper && len(chain) <= len(d.chain) || len(chain) > 0 && !most(sample, func(l []byte) bool { return isProductive(chain, l) }) {
		return false
	}
	var f facts
	text, ok := cut(chain, line, &f)
	if !ok || len(chain) == 0 && !headerOf(text).own() {
		return false // A line without anything is no reason to expect no envelope.
	}
	d.chain, d.placed, d.looked = chain, placed, nil
	d.copied = d.isCopied(chain, sample)
	d.line(line, rest)
	return true
}

// cut takes the parts of an envelope off a line. It returns false, and what is left, at one that is not
// there.
func cut(chain []step, line []byte, f *facts) (text []byte, ok bool) {
	text = line
	for _, s := range chain {
		t, ok := s(text, f)
		if !ok {
			return text, false
		}
		text = t
	}
	return text, true
}

// isProductive reports whether a line states a time or a place in its envelope, or has a header of a
// program behind it.
func isProductive(chain []step, line []byte) bool {
	var f facts
	text, ok := cut(chain, bytes.TrimRight(line, "\r\n"), &f)
	return ok && (f.stamp != nil || f.file != (Place{}) || f.placed || headerOf(text) > word)
}

// isCopied reports whether an envelope has the time at which the lines were copied, as the log of a
// job that printed them: it hardly goes on while theirs does.
func (d *Decoder) isCopied(chain []step, sample [][]byte) bool {
	var outer, own []time.Time
	for _, line := range sample {
		var f facts
		text, ok := cut(chain, bytes.TrimRight(line, "\r\n"), &f)
		if !ok || f.stamp == nil {
			continue
		}
		t, _, ok := d.stamps.parse(f.stamp)
		if at, has := matcher.TimeOf(text, d.now); ok && has {
			outer, own = append(outer, t), append(own, at)
		}
	}
	if len(own) < 3 {
		return false
	}
	spread := func(times []time.Time) time.Duration {
		return slices.MaxFunc(times, time.Time.Compare).Sub(slices.MinFunc(times, time.Time.Compare))
	}
	return spread(own) > 10*spread(outer)+10*time.Second
}

// outline is how a line begins: each word is a letter, each number a digit.
type outline [8]byte

func outlineOf(b []byte) (o outline) {
	n := 0
	for _, c := range b[:min(len(b), 64)] {
		switch {
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			c = 'a'
		case c-'0' <= 9:
			c = '9'
		}
		if n > 0 && o[n-1] == c {
			continue
		}
		if n == len(o) {
			break
		}
		o[n] = c
		n++
	}
	return o
}

// foreign decodes a line that has not the envelope of the lines around it: one of another
// envelope, the next line of the same record, or what a person wrote.
func (d *Decoder) foreign(line, text []byte, own *facts, rest []byte) {
	if own.stamp != nil || own.file != d.base {
		d.inner(own, text)
		return
	}
	if len(bytes.TrimSpace(line)) > 0 && d.look(line, rest, false) {
		return
	}
	if d.doc.open() || d.table != nil && d.table.open {
		f := d.last
		d.content(text, &f, rest)
		return
	}
	// Nobody says who wrote it. It has the time of the line before it.
	f := facts{file: d.base, stamp: d.last.stamp, zoneless: d.last.zoneless}
	d.more = true
	d.out(&f, text, false)
	d.more = false
}

// content decodes a line without the parts of its envelope that stand before it.
func (d *Decoder) content(text []byte, f *facts, rest []byte) {
	if bytes.IndexByte(text, '\n') >= 0 && !d.doc.open() {
		for line := range bytes.SplitSeq(bytes.TrimRight(text, "\n"), []byte("\n")) {
			d.content(trimCR(line), f, nil)
		}
		return
	}
	switch {
	case d.doc.open():
		d.buf = append(append(d.buf[:0], text...), '\n')
		d.doc.add(d, d.buf)
		return
	case d.table != nil:
		if d.table.row(d, text, f) {
			return
		}
		d.table = nil
	case d.printed.open, bytes.Contains(text, []byte("ResourceLog #")):
		if d.printed.add(d, text) {
			return
		}
	case d.entry.open(), d.entry.seen, isField(text), isEntryHead(text):
		if d.entry.add(d, text, f, rest) {
			return
		}
	}
	b := bytes.TrimLeft(text, " \t\x1e")
	if sse := bytes.TrimPrefix(b, []byte("data: ")); len(sse) < len(b) && len(sse) > 0 && sse[0] == '{' {
		b = sse
	}
	if len(b) > 0 && (b[0] == '{' || b[0] == '[') && !d.isDocker(b) {
		switch behind, n, whole := d.values(b, f); {
		case len(behind) == 0:
			return
		case len(behind) < len(b):
			d.content(behind, f, rest)
			return
		case !whole && n >= len(bytes.TrimRight(b, " \t\r")) && jsonStarts(b, rest):
			d.doc.start(d, append(append(d.buf[:0], b...), '\n'), nil, f)
			return
		}
	}
	if closing := d.closingOf(b, rest); closing != nil {
		d.doc.start(d, append(append(d.buf[:0], b...), '\n'), closing, f)
		return
	}
	if isPairs(text) && d.pairs(text, f) {
		return
	}
	if d.table == nil && (d.at == nil || len(d.chain) > 0 || bytes.ContainsAny(text, ",;\t|")) {
		if d.table = d.sheetOf(text); d.table != nil {
			return
		}
	}
	d.inner(f, text)
}

// values decodes the records that a line begins with. It returns what follows them, and the length of the
// newest value and whether it has an end.
func (d *Decoder) values(b []byte, f *facts) (behind []byte, n int, whole bool) {
	for len(b) > 0 && (b[0] == '{' || b[0] == '[') {
		var ok bool
		if n, whole, ok = d.rec.read(b, *f); !ok {
			break
		}
		b = bytes.TrimLeft(b[n:], " \t\r,;`")
	}
	return b, n, whole
}

// jsonStarts reports whether a JSON value that is not complete continues on the next line.
func jsonStarts(b, rest []byte) bool {
	if len(b) > 1<<10 {
		return true
	}
	b = bytes.TrimRight(b, " \t\r")
	switch b[len(b)-1] {
	case '{', '[', ',', '}', ']', '"', ':':
	default:
		return false
	}
	next, _, _ := bytes.Cut(rest, []byte("\n"))
	next = bytes.TrimLeft(next, " \t\r>|")
	return len(next) == 0 && len(b) <= 2 || len(next) > 0 && (next[0] == '"' || next[0] == '{' || next[0] == '[' || next[0] == '}' || next[0] == ']' || next[0]-'0' <= 9)
}

// isDocker reports whether a line is as Docker's json-file writes it, and nothing was added.
func (d *Decoder) isDocker(b []byte) bool {
	if !bytes.HasPrefix(b, []byte(`{"log":"`)) || bytes.Contains(b, []byte(`"kubernetes`)) {
		return false
	}
	tail := b[max(0, len(b)-128):]
	k := bytes.Index(tail, []byte(`,"stream":"std`))
	if k < 0 || !bytes.Contains(tail[k:], []byte(`","time":"`)) || bytes.Count(tail[k:], []byte(`:"`)) != 2 {
		return false
	}
	if k > 3 && string(tail[k-3:k]) == `\n"` {
		d.docker = true
	}
	return d.docker
}

// inner decodes a text that may have a further envelope in it, or several lines.
func (d *Decoder) inner(f *facts, text []byte) {
	if bytes.IndexByte(text, 0x1b) >= 0 {
		d.scratch = stripEscapes(d.scratch[:0], text)
		text = d.scratch
	}
	trimmed := bytes.TrimRight(text, "\r\n")
	if len(trimmed) == 0 && len(text) > 0 {
		d.out(f, trimmed, false)
		return
	}
	text = trimmed
	if d.rec.depth > 0 && len(text) > 1 && text[0] == '{' && d.rec.depth < 4 && hinted(text) {
		if n, _, ok := d.rec.read(text, *f); ok && n == len(text) {
			return
		}
	}
	if bytes.IndexByte(text, '\n') >= 0 {
		for line := range bytes.SplitSeq(text, []byte("\n")) {
			d.inner(f, trimCR(line))
			d.more = true
		}
		d.more = false
		return
	}
	if d.enveloped(f) {
		if n, fraction := stampLen(text); n > 0 && n < len(text) {
			switch {
			case isCRI(text[n:]):
				g := *f
				g.stamp, g.stream, g.partial, g.rank = text[:n], text[n+4], text[n+8] == 'P', 0
				g.zoneless = false
				k := bytes.IndexByte(text[n+8:], ' ')
				if k < 0 {
					d.out(&g, nil, true)
				} else {
					d.out(&g, text[n+8+k+1:], true)
				}
				return
			case fraction >= 7 && text[n] == ' ':
				g := *f
				g.stamp, g.rank, g.zoneless = text[:n], 0, false
				d.out(&g, text[n+1:], true)
				return
			}
		}
	}
	d.out(f, text, true)
}

// hinted reports whether a JSON text may be an envelope.
func hinted(b []byte) bool {
	for _, s := range []string{`stream`, "kube", "k8s", "ontainer", `"log"`, `"_raw"`, "odName", `"pod`, `"line"`} {
		if bytes.Contains(b, []byte(s)) {
			return true
		}
	}
	return false
}

// enveloped reports whether the envelope of a line says anything.
func (d *Decoder) enveloped(f *facts) bool {
	return len(d.chain) > 0 || d.rec.depth > 0 || f.stamp != nil
}

// out emits a line. whole means that it has an envelope of its own.
func (d *Decoder) out(f *facts, text []byte, whole bool) {
	d.key = f.key(d.key[:0])
	if d.at == nil || string(d.key) != string(d.atKey) {
		p := d.places[string(d.key)]
		if p == nil {
			p = new(Place)
			*p = f.where()
			d.places[string(d.key)] = p
		}
		d.at, d.atKey = p, append(d.atKey[:0], d.key...)
	}
	l := Line{Place: d.at, Stderr: f.stream == 'e', Partial: f.partial, Continues: d.more, Text: text}
	timed := false
	if f.stamp != nil {
		if t, unit, ok := d.stamps.parse(f.stamp); ok {
			l.Time, timed = d.better(t, unit, f.zoneless, text), true
		}
	}
	if f.stamp == nil && d.copied {
		l.Time, timed = matcher.TimeOf(text, d.now)
	}
	d.counts.Lines++
	switch {
	case timed && whole, whole && (d.at.Pod != "" || d.at.Identifier != ""):
		d.known = true
	default:
		d.known = isContinued(text, d.known)
	}
	if d.counts.Lines < 1000 || d.counts.Lines%16 == 0 { // That is slow.
		d.opaque = isOpaque(text)
	}
	d.known = d.known && !d.opaque
	if l.Understood = d.known; d.known {
		d.counts.Understood++
	}
	if !d.changed && (timed || *d.at != (Place{}) || len(text) != len(d.raw) || !bytes.Equal(text, d.raw)) {
		d.changed = true
	}
	d.emit(l)
}

// better returns the time of a line: that of its envelope, or that which the line states
// itself if it is more exact and the two agree.
func (d *Decoder) better(t time.Time, unit time.Duration, zoneless bool, text []byte) time.Time {
	if unit <= time.Microsecond && !zoneless {
		return t
	}
	own, ok := matcher.TimeOf(text, d.now)
	if !ok {
		return t
	}
	diff := own.Sub(t)
	if zoneless {
		diff = (diff%(15*time.Minute) + 15*time.Minute) % (15 * time.Minute)
	}
	if diff >= 0 && diff < max(unit, time.Second) || zoneless && diff > 15*time.Minute-time.Second {
		return own
	}
	return t
}
