// Package envelope restores the original log lines from text in which tools such as shippers, exports, viewers, chats
// and mail programs have wrapped them. The text that a tool added to a line is called the envelope of the line.
//
// An envelope has layers, and a step removes one layer. There are two kinds of steps. One undoes a change of whole
// lines, such as colors (undos). The other removes the text that a tool writes before each line, such as a time or the
// name of a pod (frames, marks). The first lines of an input determine the steps. Lines without these layers cause a
// new search for steps. After all steps, the rest of a line can be three things. It is the log line itself, or a part
// of a block of lines that belong together (JSON, YAML, CSV, a record with one field on each line), or a record whose
// fields are recognized by their names (keyClass).
package envelope

import (
	"bytes"
	"slices"
	"time"

	"crowsnest/internal/lazyre"
	"crowsnest/matcher"
)

// Line is a line as the container wrote it, without the newline.
type Line struct {
	// Place is where the line was written. All lines of the same place share one pointer.
	Place *Place
	// Time is the time that the envelope states; zero if it states none.
	Time   time.Time
	Stderr bool
	// Partial reports whether the next line of the same place continues this line.
	Partial bool
	// Continues reports whether the line belongs to the same record as the line before it.
	Continues bool
	// Understood reports whether the line looks like a log line, or has an envelope.
	Understood bool
	// Text is valid until the function that received the line returns.
	Text []byte
}

// Decoder removes the envelope from the lines of one input. It is not safe for concurrent use.
type Decoder struct {
	emit       func(Line)
	clock      clock
	rec        records
	chain      []step
	placed     bool // whether the steps read times or places
	copied     bool // whether the times that the steps read are the times at which the lines were copied
	decided    bool
	looked     map[string]int // number of searches for an envelope; the key is the outline of the line for which it was searched
	rest       []byte         // beginning of an incomplete line
	block      block          // nil outside a block
	inYAML     bool           // whether the lines are YAML documents
	base       Place          // place that an earlier line stated for the following lines
	sectionEnd []byte         // line that ends the current section of a dump; empty outside a section
	last       facts          // data from the newest line that had the envelope

	containers bool // whether the name of a container follows the name of a pod
	docker     bool // whether lines of Docker end with a newline

	origins      map[string]*origin // data from the words before a line; the key is these words
	pods         map[string]bool    // whether a word is the name of a pod
	places       map[string]*Place
	currentPlace *Place // place of the newest line
	atKey        []byte
	key          []byte

	raw       []byte // current line as it was read
	changed   bool
	continues bool // whether the line belongs to the same record as the line before it
	known     bool // whether the format of the previous line was known
	opaque    bool // whether the newest line that was checked contains another line
	lines     int64
}

// New returns a decoder that passes lines to emit. now determines the year of times without a year.
func New(now time.Time, emit func(Line)) *Decoder {
	d := &Decoder{emit: emit, places: map[string]*Place{}, clock: clock{now: now}}
	d.rec = records{out: d.inner, wrote: func(f *facts, text []byte) { d.emitLine(f, text, true) }}
	return d
}

// Changed reports whether the decoder has changed any line so far.
func (d *Decoder) Changed() bool { return d.changed }

// maxLine is the maximum size in bytes of a line that is decoded as a whole. maxSample is the maximum size of the lines
// from which the envelope is determined.
const (
	maxLine   = 1 << 20
	maxSample = 64
)

// Write decodes a part of the input. It keeps an incomplete last line for the next call, unless the line is very long.
func (d *Decoder) Write(b []byte) {
	d.rest = append(d.rest, b...)
	end := bytes.LastIndexByte(d.rest, '\n') + 1
	if end > 0 {
		d.decodeLines(d.rest[:end])
	} else if len(d.rest) >= maxLine {
		d.decodePiece(d.rest)
		end = len(d.rest)
	}
	d.rest = append(d.rest[:0], d.rest[end:]...)
}

// decodePiece decodes a part of a line that is too long to be kept until it is complete.
func (d *Decoder) decodePiece(b []byte) {
	o, isDocument := d.block.(*document)
	switch c := b[skipSpace(b, 0)%len(b)]; {
	case isDocument:
		o.write(d, b)
	case c == '{' || c == '[':
		d.openDocument(b, &d.last)
	default:
		d.decodeLine(b, nil)
	}
}

// Close decodes the data that Write has kept.
func (d *Decoder) Close() {
	d.decodeLines(d.rest)
	d.rest = nil
	if d.block != nil {
		d.block.end(d)
	}
}

func (d *Decoder) decodeLines(b []byte) {
	if !d.decided {
		d.decide(b)
	}
	for len(b) > 0 {
		line, rest, _ := bytes.Cut(b, []byte("\n"))
		b = rest
		d.decodeLine(trimCR(line), rest)
	}
}

func trimCR(b []byte) []byte { return bytes.TrimSuffix(b, []byte("\r")) }

func (d *Decoder) decide(b []byte) {
	if sample := sampleOf(b, maxSample); len(sample) > 0 {
		d.decided = true
		d.chain, d.placed = d.detect(sample)
		d.copied = d.isCopied(d.chain, sample)
	}
}

// sampleOf returns the first lines of b that are not empty, at most most of them.
func sampleOf(b []byte, most int) (sample [][]byte) {
	for line := range bytes.Lines(b) {
		if len(sample) == most {
			break
		}
		if len(bytes.TrimSpace(line)) > 0 {
			sample = append(sample, line[:min(len(line), 64<<10)])
		}
	}
	return sample
}

var (
	// heading matches the line with the name of a file that tail writes before the lines of the file.
	heading = lazyre.New(`^==> (.+) <==$`)
	// section matches the line that `kubectl cluster-info dump` writes before the lines of a container.
	section = lazyre.New(`^==== START (logs for container (\S+) of pod (\S+)/(\S+) ====)$`)
	// commonLabels matches the line with labels that logcli and Grafana write once for all lines.
	commonLabels = lazyre.New(`^\x{feff}?(?:\d{4}/\d\d/\d\d \d\d:\d\d:\d\d )?Common labels: (\{.+\})$`)
)

// setBase stores the place that a line states for the following lines. It returns false if the line states none.
func (d *Decoder) setBase(line, rest []byte) bool {
	if len(d.sectionEnd) > 0 { // inside a section, the start of another section is a line that the container wrote
		ended := bytes.Equal(line, d.sectionEnd)
		if ended {
			d.base, d.sectionEnd = Place{}, nil
		}
		return ended
	}
	if m := section.FindSubmatch(line); m != nil {
		d.base = Place{Namespace: string(m[3]), Pod: string(m[4]), Container: string(m[2])}
		d.sectionEnd = append([]byte("==== END "), m[1]...)
		d.changed, d.decided = true, false
		d.decide(rest)
		return true
	}
	if m := heading.FindSubmatch(line); m != nil {
		p, ok := placeOfPath(m[1])
		if !ok && d.base == (Place{}) {
			return false
		}
		if d.base = p; !ok {
			d.base = Place{Name: string(m[1])}
		}
		d.decided = false // lines of another log follow, so the envelope must be determined again
		d.decide(rest)
		return true
	}
	if d.lines > 4 { // such a line, after the first lines of an input, was written by a container
		return false
	}
	m := commonLabels.FindSubmatch(stripEscapes(nil, line))
	if m != nil {
		var f facts
		d.rec.attributes(m[1], false, &f)
		d.base, d.changed = f.where(), true
	}
	return m != nil
}

func (d *Decoder) decodeLine(line, rest []byte) {
	if d.raw = line; d.setBase(line, rest) {
		return
	}
	f := &facts{file: d.base}
	text, ok := cutAll(d.chain, line, f)
	if !ok {
		d.decodeForeign(line, text, f, rest)
		return
	}
	if h := headerOf(text); !d.placed && d.block == nil && len(text) > 0 && (h <= stamp || h == syslog || isLabelled(text)) && d.findEnvelope(line, rest, len(d.chain)+1) {
		return
	}
	if len(d.chain) > 0 {
		if d.copied {
			f.stamp = nil
		}
		d.last.stamp, d.last.zoneless, d.last.rank = bytes.Clone(f.stamp), f.zoneless, f.rank
	}
	d.content(text, f, rest)
}

// decodeForeign decodes a line that lacks the envelope of its neighbors. The line may have another envelope, continue
// the previous record, or be text that a person wrote.
func (d *Decoder) decodeForeign(line, text []byte, own *facts, rest []byte) {
	if own.stamp != nil || own.file != d.base {
		d.inner(own, text)
		return
	}
	if len(bytes.TrimSpace(line)) > 0 && d.findEnvelope(line, rest, 0) {
		return
	}
	if d.block != nil && d.block.isOpen() {
		f := d.last
		d.content(text, &f, rest)
		return
	}
	// The origin of the line is unknown, so it gets the time of the previous line.
	d.continues = true
	d.emitLine(&facts{file: d.base, stamp: d.last.stamp, zoneless: d.last.zoneless}, text, false)
	d.continues = false
}

// findEnvelope determines a new envelope from this line on. The more lines with the same outline had no envelope, the
// less often it tries. If it finds an envelope with enough layers, it decodes the line and returns true.
func (d *Decoder) findEnvelope(line, rest []byte, parts int) bool {
	o := outlineOf(line)
	n := d.looked[o] + 1
	if d.looked == nil || len(d.looked) > maxKnown {
		d.looked = map[string]int{}
	}
	if d.looked[o] = n; n > 4 && n&(n-1) != 0 {
		return false
	}
	sample := append([][]byte{line}, sampleOf(rest, 15)...)
	chain, placed := d.detect(sample)
	if len(chain) < parts || len(chain) > 0 && !mostLines(sample, func(l []byte) bool { return isProductive(chain, l) }) {
		return false
	}
	text, ok := cutAll(chain, line, new(facts))
	if !ok || len(chain) == 0 && !headerOf(text).own() {
		return false // a single line without envelope does not mean that the next lines have none
	}
	d.chain, d.placed, d.copied, d.looked = chain, placed, d.isCopied(chain, sample), nil
	d.decodeLine(line, rest)
	return true
}

// cutAll removes all layers of an envelope from a line. If a layer is missing, it returns the remaining text and false.
func cutAll(chain []step, line []byte, f *facts) (text []byte, ok bool) {
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

// isProductive reports whether the envelope of a line states a time or a place, or precedes the header that a program
// writes.
func isProductive(chain []step, line []byte) bool {
	var f facts
	text, ok := cutAll(chain, bytes.TrimRight(line, "\r\n"), &f)
	return ok && (f.stamp != nil || f.file != (Place{}) || f.placed || looksLogged(text))
}

// isCopied reports whether the times in the envelope are the times at which lines were copied, as in the log of a job
// that prints other logs. Such times are close together, while the times in the lines are not.
func (d *Decoder) isCopied(chain []step, sample [][]byte) bool {
	var outer, own []time.Time
	for _, line := range sample {
		var f facts
		text, ok := cutAll(chain, bytes.TrimRight(line, "\r\n"), &f)
		if !ok || f.stamp == nil {
			continue
		}
		t, _, ok := d.clock.parse(f.stamp)
		if at, has := matcher.TimeOf(text, d.clock.now); ok && has {
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

var (
	letters = lazyre.New("[A-Za-z]+")
	numbers = lazyre.New("[0-9]+")
)

// outlineOf returns the outline of the beginning of a line. In it, a letter stands for each
// word and a digit for each number.
func outlineOf(b []byte) string {
	b = numbers.ReplaceAllLiteral(letters.ReplaceAllLiteral(b[:min(len(b), 64)], []byte("a")), []byte("9"))
	return string(b[:min(len(b), 8)])
}

// content decodes a line from which the layers before the text were removed.
func (d *Decoder) content(text []byte, f *facts, rest []byte) {
	_, inDocument := d.block.(*document)
	if bytes.IndexByte(text, '\n') >= 0 && !inDocument {
		for line := range bytes.SplitSeq(bytes.TrimRight(text, "\n"), []byte("\n")) {
			d.content(trimCR(line), f, nil)
		}
		return
	}
	if d.block != nil && d.block.add(d, text, f, rest) {
		return
	}
	for _, open := range openers {
		if open(d, text, f, rest) {
			return
		}
	}
	d.inner(f, text)
}

// isDocker reports whether a line has the exact format of Docker's json-file driver.
func (d *Decoder) isDocker(b []byte) bool {
	if !hasPrefix(b, `{"log":"`) || bytes.Contains(b, []byte(`"kubernetes`)) {
		return false
	}
	m := dockerEnd.FindSubmatch(b[max(0, len(b)-128):])
	d.docker = d.docker || m != nil && len(m[1]) > 0
	return m != nil && d.docker
}

var dockerEnd = lazyre.New(`(\\n)?","stream":"std(?:out|err)","time":"[^"]*"\}\s*$`)

// inner decodes a text that may contain another envelope, or several lines.
func (d *Decoder) inner(f *facts, text []byte) {
	if bytes.IndexByte(text, 0x1b) >= 0 {
		text = stripEscapes(nil, text)
	}
	trimmed := bytes.TrimRight(text, "\r\n")
	if len(trimmed) == 0 && len(text) > 0 {
		d.emitLine(f, trimmed, false)
		return
	}
	text = trimmed
	if d.rec.depth > 0 && d.rec.depth < 4 && hasPrefix(text, "{") && contains(text, hints...) {
		if n, _, ok := d.rec.read(text, *f); ok && n == len(text) {
			return
		}
	}
	if bytes.IndexByte(text, '\n') >= 0 {
		for line := range bytes.SplitSeq(text, []byte("\n")) {
			d.inner(f, trimCR(line))
			d.continues = true
		}
		d.continues = false
		return
	}
	if n, fraction := stampLen(text); n > 0 && n < len(text) && (len(d.chain) > 0 || d.rec.depth > 0 || f.stamp != nil) {
		g := *f
		g.stamp, g.rank, g.zoneless = text[:n], 0, false
		switch {
		case isCRI(text[n:]):
			g.stream, g.partial = text[n+4], text[n+8] == 'P'
			_, text, _ = bytes.Cut(text[n+8:], []byte(" "))
			f = &g
		case fraction >= 7 && text[n] == ' ':
			f, text = &g, text[n+1:]
		}
	}
	d.emitLine(f, text, true)
}

// hints contains parts of field names that occur in JSON envelopes.
var hints = []string{`stream`, "kube", "k8s", "ontainer", `"log"`, `"_raw"`, "odName", `"pod`, `"line"`}

// emitLine emits a line. whole says whether the line has its own envelope.
func (d *Decoder) emitLine(f *facts, text []byte, whole bool) {
	d.key = f.appendKey(d.key[:0])
	if d.currentPlace == nil || !bytes.Equal(d.key, d.atKey) {
		p := d.places[string(d.key)]
		if p == nil {
			p = new(Place)
			*p = f.where()
			d.places[string(d.key)] = p
		}
		d.currentPlace, d.atKey = p, append(d.atKey[:0], d.key...)
	}
	l := Line{Place: d.currentPlace, Stderr: f.stream == 'e', Partial: f.partial, Continues: d.continues, Text: text}
	timed := false
	if f.stamp != nil {
		if t, unit, ok := d.clock.parse(f.stamp); ok {
			l.Time, timed = d.better(t, unit, f.zoneless, text), true
		}
	} else if d.copied {
		l.Time, timed = matcher.TimeOf(text, d.clock.now)
	}
	d.lines++
	if d.lines < 1000 || d.lines%16 == 0 { // only some lines are checked, because the check is slow
		d.opaque = isOpaque(text)
	}
	d.known = !d.opaque && (whole && (timed || d.currentPlace.Pod != "" || d.currentPlace.Identifier != "") || isOrdinary(text, d.known))
	l.Understood = d.known
	d.changed = d.changed || timed || *d.currentPlace != (Place{}) || !bytes.Equal(text, d.raw)
	d.emit(l)
}

func (d *Decoder) outLines(f *facts, b []byte) {
	for line := range bytes.SplitSeq(bytes.TrimRight(b, "\n"), []byte("\n")) {
		d.raw = trimCR(line)
		d.emitLine(f, d.raw, false)
	}
}

// better returns the time of a line. This is the time in the envelope, unless the line itself states a more precise
// time that agrees with it.
func (d *Decoder) better(t time.Time, unit time.Duration, zoneless bool, text []byte) time.Time {
	if unit <= time.Microsecond && !zoneless {
		return t
	}
	own, ok := matcher.TimeOf(text, d.clock.now)
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
