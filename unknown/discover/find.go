// Package discover finds lines that report errors and that no rule matches, and turns such a
// line into a rule.
//
// The production matcher reads the lines and returns those that no part of a rule matches.
// ComplaintReader judges each of these lines, for discover and for the daemon. A line that
// reports an error, by its level or by its words, is a complaint. Placeholders replace the
// words that vary. Lines that are equal afterwards form one pattern, and patterns that differ
// in few words are joined. Patterns with the same cause form one group. One rule matches the
// whole group where possible. The ranking puts severity before frequency, and new patterns
// before permanent ones. It demotes groups of a component that already has higher groups. All
// memory is bounded, and the report counts the patterns that were evicted.
package discover

import (
	"errors"
	"fmt"
	"io"
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
	Name   string // name of the input in reports, which is a path or "stdin"
	Labels matcher.Labels
	// Open returns the decompressed bytes of the log. It is called once.
	Open func() (io.ReadCloser, error)
}

// Options set how lines are read. The zero value is ready.
type Options struct {
	// Lenient makes every selector accept an input that lacks the label.
	Lenient bool
	// Now supplies the year for timestamps without a year.
	Now time.Time
	// Redactor hides secrets in reports. If it is nil, secrets are shown.
	Redactor *redact.Redactor
	// Patterns is the maximum number of patterns in memory. Zero means defaultPatterns.
	Patterns int
}

// Finder reads logs and collects the patterns of the errors that no rule matches. It is not
// safe for concurrent use.
type Finder struct {
	opt        Options
	prog       *matcher.Program
	reader     ComplaintReader
	patterns   patterns
	buf        *matcher.Buffer // memory for the hits of one call of the matcher
	numbers    map[string]int  // number of each stream with a complaint, by the name of the stream
	owners     []*component    // component of each stream, by the number of the stream
	components map[string]*component
	used       int64  // number of lines that were counted for a pattern
	report     Report // result so far, which contains only counts
	// onCount, if not nil, is called for every line that is counted for a pattern.
	onCount func(key uint64, input string, line int64)
}

// New returns a Finder that ignores the lines that rules of the set match. A nil set matches no
// line.
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
		opt: opt, prog: prog, patterns: patterns{limit: opt.Patterns, byKey: map[uint64]*pattern{}}, buf: matcher.NewUnmatchedBuffer(),
		numbers: map[string]int{}, components: map[string]*component{},
	}, nil
}

type stream struct {
	*matcher.Stream
	name        string // name of the stream, by which it is counted
	input       string
	home        *component
	linesBefore int64 // number of lines of the component before the first line of this stream
	matched     int64 // number of the newest line that matched a rule
}

const blockSize = 256 << 10

// Read reads an input to its end. If Read fails, the lines that it has already read still
// count.
func (f *Finder) Read(in Input) error {
	rc, err := in.Open()
	if err != nil {
		return fmt.Errorf("read %s: %w", in.Name, err)
	}
	s := f.openStream(matcher.NewStream(in.Labels, matcher.StreamOptions{Lenient: f.opt.Lenient, TextTime: true, Join: matcher.JoinStream}), in.Name)
	err = f.scan(s, rc)
	f.countLines(s, f.prog.FlushInto(f.buf, s.Stream, f.opt.Now), f.buf.Complaints())
	f.closeStream(s)
	if err = errors.Join(err, rc.Close()); err != nil {
		return fmt.Errorf("read %s: %w", in.Name, err)
	}
	return nil
}

func (f *Finder) scan(s *stream, r io.Reader) (err error) {
	for lines := wholelines.New(r, blockSize); err == nil; f.prog.Tune() {
		var block []byte
		if block, _, err = lines.Next(); len(block) > 0 {
			f.countLines(s, f.prog.ScanInto(f.buf, s.Stream, block, f.opt.Now), f.buf.Complaints())
		}
		lines.Release(block)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (f *Finder) openStream(source *matcher.Stream, input string) *stream {
	labels := source.Labels()
	name := text.FormatLabels(labels)
	if labels["pod"] == "" {
		name += input
	}
	component := name
	if c := labels["container"]; c != "" {
		component = labels["namespace"] + "/" + c
	}
	f.report.Inputs++
	return &stream{Stream: source, name: name, input: input, home: f.component(component), linesBefore: f.component(component).lines}
}

func (f *Finder) closeStream(s *stream) {
	c := s.Counters()
	s.home.lines = max(s.home.lines, s.linesBefore+c.Lines)
	f.report.Lines += c.Lines
	f.report.Bytes += c.Bytes
	f.report.Truncated += c.Truncated
	f.report.Dropped += c.Dropped
}

// countLines counts the lines of a part of a stream. hits are lines that rules match, and
// lines are the ones that no rule matches.
func (f *Finder) countLines(s *stream, hits []matcher.Hit, lines []matcher.Complaint) {
	for i := range hits {
		if h := &hits[i]; h.LineNumber != s.matched {
			s.matched = h.LineNumber
			f.report.Covered++
			if !h.Untimed {
				s.home.extend(h.Time)
			}
		}
	}
	for i := range lines {
		l := &lines[i]
		if !l.Untimed {
			s.home.extend(l.Time)
		}
		s.home.lines = max(s.home.lines, s.linesBefore+l.LineNumber)
		f.countLine(s, l)
	}
}

func (f *Finder) countLine(s *stream, l *matcher.Complaint) {
	text := l.Line
	if l.LineNumber == 1 { // the first line cannot continue another line
		text = strings.TrimLeft(text, " \t")
	}
	c, ok := f.reader.judge(text)
	if !ok {
		return
	}
	key := c.Key
	p := f.patterns.byKey[key]
	if p == nil {
		p = f.newPattern(&c, s, l)
		f.patterns.add(key, p)
	}
	p.Level = max(p.Level, c.Level)
	p.count++
	switch {
	case p.harmless:
	case c.Waits:
		p.waiting++
	default:
		f.report.Complaints++
	}
	f.used++
	p.used = f.used
	at := l.Time
	if l.Untimed {
		at = time.Time{}
	}
	if !at.IsZero() {
		p.extend(at)
		p.periods.extend(at.Unix() / int64(windowSpan/time.Second))
	}
	if p.home == s.home {
		p.position.extend(s.linesBefore + l.LineNumber)
	}
	n := f.streamNumber(s)
	p.seenIn(n)
	if p.Retries || p.Awaits {
		p.spells.count(f.reader.objectHash()+uint64(n), at)
	}
	if f.onCount != nil {
		f.onCount(key, s.input, l.LineNumber)
	}
}

// maxExample bounds the length of a stored example, in bytes.
const maxExample = 4 << 10

// newPattern returns a new pattern for c. c must be the last result of judge.
func (f *Finder) newPattern(c *Complaint, s *stream, l *matcher.Complaint) *pattern {
	harmless := f.reader.judgeEnd(c)
	f.reader.describe(c, f.opt.Redactor)
	line, _, _ := strings.Cut(string(c.Line), "\n")
	c.Line = c.Line[:min(len(line), maxExample)].Clone()
	p := &pattern{Complaint: *c, harmless: harmless, input: s.input, number: l.LineNumber, labels: s.Labels(), home: s.home}
	p.template, p.err = f.reader.Template(f.opt.Redactor)
	first, _, _ := strings.Cut(string(p.err), lineSeparator)
	p.template, p.err = p.template.Clone(), p.err[:len(first)].Clone()
	p.Object, p.FirstName = "", ""
	// A peer that closes a connection early is usually a client that disconnected.
	p.Passes = p.Passes || strings.HasSuffix(string(p.template+p.err), "broken pipe")
	p.module = f.reader.lines.module(l.Line)
	return p
}

func (f *Finder) streamNumber(s *stream) int {
	n, ok := f.numbers[s.name]
	if !ok {
		n = len(f.owners)
		f.numbers[s.name] = n
		f.owners = append(f.owners, s.home)
	}
	return n
}
