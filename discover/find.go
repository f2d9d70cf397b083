package discover

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/internal/text"
	"crowsnest/internal/wholelines"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
)

// Input is one recorded log.
type Input struct {
	Name   string // name for reports, a path or "stdin"
	Labels matcher.Labels
	// Open returns the decompressed bytes. It is called once.
	Open func() (io.ReadCloser, error)
}

// Options say how lines are read. The zero value is ready.
type Options struct {
	// Lenient makes a label that an input lacks satisfy every selector.
	Lenient bool
	// Now supplies the year for timestamps without one.
	Now time.Time
	// Redactor hides secrets in reports; nil shows them.
	Redactor *redact.Redactor
	// Patterns is the maximum number of patterns in memory; zero means defaultPatterns.
	Patterns int
}

// Finder reads lines and collects the patterns of complaints that no rule covers.
// It is not safe for concurrent use.
type Finder struct {
	opt        Options
	prog       *matcher.Program
	reader     lineReader
	tree       *tree
	buf        *matcher.Buffer // buffer of records
	masked     []byte
	spans      []span
	streams    map[string]int       // number of each stream that complained, by name
	components []string             // component of each stream number
	active     map[string]*activity // activity by component
	open       map[*matcher.Stream]*streamState
	report     Report // counts only
	// onCount, if not nil, is called for every line that a pattern counts.
	onCount func(p *pattern, input string, line int64)
}

// New returns a Finder that ignores the lines that the rules of the set cover. A
// nil set covers nothing.
func New(set *rules.Set, opt Options) (*Finder, error) {
	if opt.Patterns <= 0 {
		opt.Patterns = defaultPatterns
	}
	all := &rules.Set{}
	if set != nil {
		all.Rules = set.Rules
	}
	prog, err := matcher.Compile(all)
	if err != nil {
		return nil, fmt.Errorf("compile rules: %w", err)
	}
	return &Finder{
		opt: opt, prog: prog, tree: newTree(opt.Patterns), buf: matcher.NewLineBuffer(),
		streams: map[string]int{}, open: map[*matcher.Stream]*streamState{}, active: map[string]*activity{},
	}, nil
}

// streamState is what Finder remembers of one stream between lines.
type streamState struct {
	name      string // name of the stream, for counting
	component string // what the stream is a replica of
	active    *activity
	input     string
	labels    matcher.Labels
	text      bool // a line other than a continuation was read
	waiting   *candidate
}

// candidate is a line whose error follows on the next lines.
type candidate struct {
	line    matcher.Line
	reading parsedLine
	covered bool
}

const blockSize = 256 << 10

// Read reads an input to its end. If it fails midway, the lines before still count.
func (f *Finder) Read(in Input) error {
	rc, err := in.Open()
	if err != nil {
		return fmt.Errorf("read %s: %w", in.Name, err)
	}
	s := matcher.NewStream(in.Labels, matcher.StreamOptions{Lenient: f.opt.Lenient, TextTime: true})
	fl := f.follow(s, in.Name)
	f.report.Inputs++
	err = f.scan(s, rc, func(lines []matcher.Line) { f.take(fl, lines) })
	f.prog.FlushInto(f.buf, s, f.opt.Now)
	f.take(fl, f.buf.Lines())
	f.end(s, fl)
	f.report.Bytes += s.Counters().Bytes
	if err = errors.Join(err, rc.Close()); err != nil {
		return fmt.Errorf("read %s: %w", in.Name, err)
	}
	return nil
}

// ahead is how many blocks are in memory.
const ahead = 4

// scan reads a stream to its end and calls take with the lines of each block, in order. Another
// goroutine reads and scans the next blocks meanwhile; scan waits for it. take must keep no line.
func (f *Finder) scan(s *matcher.Stream, r io.Reader, take func([]matcher.Line)) (err error) {
	type scanned struct {
		buf   *matcher.Buffer
		block []byte // memory of the lines in buf
	}
	free, full := make(chan scanned, ahead), make(chan scanned, ahead)
	for range ahead {
		free <- scanned{buf: matcher.NewLineBuffer()}
	}
	go func() {
		defer close(full)
		for lines := wholelines.New(r, blockSize); err == nil; {
			var block []byte
			if block, _, err = lines.Next(); len(block) == 0 {
				lines.Release(block)
				continue
			}
			x := <-free
			lines.Release(x.block)
			x.block = block
			f.prog.ScanInto(x.buf, s, block, f.opt.Now)
			f.prog.Tune()
			full <- x
		}
	}()
	for x := range full {
		take(x.buf.Lines())
		free <- x
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

// Record reads one line of a source that delivers records. The caller passes the
// same Stream for all records of a stream, and calls Finish after the last.
func (f *Finder) Record(s *matcher.Stream, rec matcher.Record) {
	fl := f.open[s]
	if fl == nil {
		f.report.Inputs++
		fl = f.follow(s, "")
		f.open[s] = fl
	}
	f.report.Bytes += int64(len(rec.Text))
	f.prog.MatchInto(f.buf, s, rec)
	f.take(fl, f.buf.Lines())
}

// Finish ends the streams that Record opened.
func (f *Finder) Finish() {
	all := slices.SortedFunc(maps.Keys(f.open), func(a, b *matcher.Stream) int {
		return strings.Compare(f.open[a].name, f.open[b].name)
	})
	for _, s := range all {
		f.end(s, f.open[s])
	}
	clear(f.open)
}

func (f *Finder) follow(s *matcher.Stream, input string) *streamState {
	name := text.Labels(s.Labels())
	if s.Labels()["pod"] == "" {
		name += input
	}
	if input == "" {
		input = name
	}
	component := name
	if c := s.Labels()["container"]; c != "" {
		component = s.Labels()["namespace"] + "/" + c
	}
	active := f.active[component]
	if active == nil {
		active = &activity{}
		f.active[component] = active
	}
	return &streamState{name: name, component: component, input: input, labels: s.Labels(), active: active}
}

func (f *Finder) end(s *matcher.Stream, fl *streamState) {
	f.finishWaiting(fl)
	f.report.Truncated += s.Counters().Truncated
	f.report.Dropped += s.Counters().Dropped
}

// take processes lines in their order.
func (f *Finder) take(fl *streamState, lines []matcher.Line) {
	for i := range lines {
		f.line(fl, &lines[i])
	}
}

func (f *Finder) line(fl *streamState, l *matcher.Line) {
	f.report.Lines++
	if !l.Time.Equal(f.opt.Now) { // the line has a timestamp
		fl.active.saw(l.Time)
	}
	fl.active.lines++
	if l.Covered {
		f.report.Covered++
	}
	if fl.waiting != nil && f.continues(fl, l) {
		return
	}
	if fl.text && continuation(l.Text) {
		return
	}
	fl.text = true
	if l.Covered {
		return
	}
	reading := f.reader.readLine(l.Text)
	if reading.Opens {
		keep := *l
		keep.Text = strings.Clone(l.Text)
		fl.waiting = &candidate{line: keep, reading: reading}
		return
	}
	f.candidate(fl, l, reading)
}

// continues reports whether a line continues the error of the waiting candidate,
// and if so adds it.
func (f *Finder) continues(fl *streamState, l *matcher.Line) bool {
	w := fl.waiting
	inside := l.Text == "" || l.Text[0] == '\t'
	last := strings.HasPrefix(l.Text, " >")
	if !inside && !last {
		f.finishWaiting(fl)
		return false
	}
	w.covered = w.covered || l.Covered
	if w.reading.Named = true; w.reading.Error == "" {
		w.reading.Error = strings.Clone(firstLine(l.Text, maxError))
	}
	if last {
		f.finishWaiting(fl)
	}
	return true
}

// finishWaiting ends the waiting candidate: no more lines belong to its error.
func (f *Finder) finishWaiting(fl *streamState) {
	w := fl.waiting
	if fl.waiting = nil; w == nil {
		return
	}
	if !w.covered {
		f.candidate(fl, &w.line, w.reading)
	}
}

// candidate counts a line that no rule covers, if it complains.
func (f *Finder) candidate(fl *streamState, l *matcher.Line, r parsedLine) {
	if r.Message == "" {
		return
	}
	f.masked = appendMasked(f.masked[:0], &f.spans, r.Message)
	if r.Error != "" {
		f.masked = append(f.masked, ' ')
		f.masked = append(f.masked, errorSeparator...)
		f.masked = append(f.masked, ' ')
		f.masked = appendMasked(f.masked, &f.spans, r.Error)
	}
	// Placeholders have replaced names by now, so a node named error-prone is no complaint.
	var j judgement
	j.judge(f.masked)
	idle := r.Level < levelWarning && j.weight == 0
	if idle && j.patience&waits == 0 {
		return
	}
	p := f.tree.find(f.masked)
	if p == nil {
		p = f.tree.add(f.masked)
		p.example = example{
			line: f.keep(l.Text), input: fl.input, number: l.Number, labels: fl.labels,
			reading: parsedLine{Level: r.Level, Message: strings.Clone(r.Message), Error: strings.Clone(r.Error), Named: r.Named},
			module:  f.reader.module(l.Text),
		}
		p.level, p.judgement, p.place = r.Level, j, place{home: fl.active, before: fl.active.lines}
	}
	if idle {
		p.idling++
	} else {
		f.report.Complaints++
	}
	f.count(p, fl, l, &r)
	if f.onCount != nil {
		f.onCount(p, fl.input, l.Number)
	}
}

// maxExample bounds the stored text of an example, in bytes.
const maxExample = 4 << 10

// keep copies a line for an example. It redacts a long line before truncating it:
// half a secret may not look like one.
func (f *Finder) keep(line string) string {
	if len(line) <= maxExample {
		return strings.Clone(line)
	}
	line = string(f.opt.Redactor.Text(line))
	return strings.Clone(line[:min(len(line), maxExample)])
}

func (f *Finder) count(p *pattern, fl *streamState, l *matcher.Line, r *parsedLine) {
	p.count++
	p.place.saw(fl.active)
	p.level = max(p.level, r.Level)
	at := l.Time
	if at.Equal(f.opt.Now) {
		at = time.Time{} // the line has no timestamp
	}
	if !at.IsZero() {
		if p.first.IsZero() || at.Before(p.first) {
			p.first = at
		}
		if at.After(p.last) {
			p.last = at
		}
		p.spread.saw(at)
	}
	n, ok := f.streams[fl.name]
	if !ok {
		n = len(f.streams)
		f.streams[fl.name] = n
		f.components = append(f.components, fl.component)
	}
	if len(p.streams) < maxStreams && !slices.Contains(p.streams, n) {
		p.streams = append(p.streams, n)
	}
	p.times = max(p.times, r.Times)
	if p.judgement.patience&(retries|waits) != 0 {
		p.repeats.add(f.reader.objectHash(l.Text, r, n), at)
		p.repeats.longest = max(p.repeats.longest, r.Over)
	}
}

// continuation reports whether a line continues the one before it: as part of a
// stack trace, or by its indentation.
func continuation(line string) bool {
	if line == "" || line[0] == '\t' || strings.HasPrefix(line, "    ") {
		return true
	}
	line = trimPrefix(strings.TrimSpace(line))
	switch {
	case strings.HasPrefix(line, "[signal "):
		return true // part of a panic
	case strings.IndexByte(line, ' ') < 0 && line != "" && line[0] != '{':
		return true // a single word carries no message; most are functions in a stack trace
	case strings.HasPrefix(line, "goroutine ") && strings.Contains(line, "["), strings.HasPrefix(line, "created by "):
		return true
	case strings.Contains(line, ".go:") && strings.Contains(line, " +0x"):
		return true
	}
	// A function call with arguments: pkg.(*T).f(0xc0000, {0x1, 0x2}).
	open := strings.IndexAny(line, " {")
	call := strings.Index(line, "(0x")
	if call < 0 {
		call = strings.Index(line, "({0x")
	}
	if call < 0 {
		call = strings.Index(line, "(...)")
	}
	return call > 0 && (open < 0 || call < open || line[open-1] == '(')
}
