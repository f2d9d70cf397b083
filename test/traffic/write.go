package traffic

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind is a kind of log.
type Kind string

// The kinds. All except Mix have the envelope of a container runtime.
const (
	Mix       Kind = "mix"       // lines of five formats
	CRI       Kind = "cri"       // the same, with partial lines and both streams
	Storm     Kind = "storm"     // nine of ten lines match the first rule
	JSON      Kind = "json"      // nine of ten lines are JSON
	Published Kind = "published" // one line in twenty matches PublishedRules
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Mix, CRI, Storm, JSON, Published} }

// Options choose a log.
type Options struct {
	Kind Kind   // default Mix
	Seed uint64 // another seed produces other lines of the same kind
	// Rules is the number of rules that matching lines are drawn from; default
	// 1000. Half of these lines match the first five rules.
	Rules int
	// Match is the share of lines that match a rule, default 0.01, or 0.027 for
	// Published. Near is the share of lines that share words with rules but
	// match none, default 0.04.
	Match, Near float64
}

const (
	longShare  = 0.0003 // lines of 17 to 60 KB
	splitShare = 0.005  // lines in several parts
	criPart    = 16 << 10
)

// Write writes a log of at least size bytes, up to the end of a line.
func Write(w io.Writer, size int64, opt Options) error {
	if opt.Kind == "" {
		opt.Kind = Mix
	}
	if !slices.Contains(Kinds(), opt.Kind) {
		return fmt.Errorf("there is no kind %q of traffic: use one of %v", opt.Kind, Kinds())
	}
	buf := bufio.NewWriterSize(w, 256<<10)
	g := newWriter(opt)
	for written := int64(0); written < size; {
		g.line()
		n, err := buf.Write(g.out)
		if err != nil {
			return fmt.Errorf("write traffic: %w", err)
		}
		written += int64(n)
	}
	if err := buf.Flush(); err != nil {
		return fmt.Errorf("write traffic: %w", err)
	}
	return nil
}

// Bytes returns a log of at least size bytes. It panics if the kind is unknown.
func Bytes(size int, opt Options) []byte {
	var b bytes.Buffer
	b.Grow(size + 128<<10)
	if err := Write(&b, int64(size), opt); err != nil {
		panic(err)
	}
	return b.Bytes()
}

type writer struct {
	opt     Options
	d       dice
	rules   []Rule
	now     time.Time
	shares  [5]int
	entry   entry
	text    []byte // of the current line
	other   []byte // of a line of the other stream between its parts
	out     []byte // physical lines
	scratch []byte
}

func newWriter(opt Options) *writer {
	if opt.Rules <= 0 {
		opt.Rules = 1000
	}
	if opt.Match == 0 {
		opt.Match = 0.01
		if opt.Kind == Published {
			opt.Match = 0.027
		}
	}
	if opt.Near == 0 {
		opt.Near = 0.04
	}
	g := &writer{opt: opt, d: newDice(opt.Seed), now: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC), shares: mixed}
	if opt.Kind == JSON {
		g.shares = mostlyJSON
	}
	g.rules = Rules(opt.Rules)
	if opt.Kind == Published {
		g.rules = PublishedRules()
	}
	return g
}

// line generates the next logical line, and its physical lines.
func (g *writer) line() {
	d := g.d
	g.now = g.now.Add(time.Duration(d.IntN(2e6)))
	storm := 0.0
	if g.opt.Kind == Storm {
		storm = 0.9
	}
	switch x := d.Float64() - storm; {
	case x < 0:
		g.failing(g.rules[0].appendSample(g.scratch[:0], d))
	case x < g.opt.Match:
		g.failing(g.draw().appendSample(g.scratch[:0], d))
	case x < g.opt.Match+g.opt.Near:
		g.failing(g.nearMiss(g.scratch[:0]))
	case x < g.opt.Match+g.opt.Near+longShare:
		g.long()
	default:
		g.entry.ordinary(d)
	}
	g.text = g.entry.render(g.text[:0], d.layout(g.shares), g.now)
	g.out = g.out[:0]
	if g.opt.Kind == Mix {
		g.out = append(append(g.out, g.text...), '\n')
		return
	}
	g.wrap()
}

func (g *writer) draw() Rule {
	if g.opt.Kind != Published && g.d.IntN(2) == 0 {
		return g.rules[g.d.IntN(min(5, len(g.rules)))]
	}
	return g.rules[g.d.IntN(len(g.rules))]
}

// nearMiss generates a line that no rule matches, with a phrase of the other
// half.
func (g *writer) nearMiss(b []byte) []byte {
	b = append(b, phrase(phrases/2+g.d.IntN(phrases/2))...)
	return append(append(b, ": "...), g.d.one(causes)...)
}

// failing generates a line about a failure: its text is the message, or the
// error.
func (g *writer) failing(text []byte) {
	g.scratch = text
	e := &g.entry
	if g.d.IntN(2) == 0 {
		e.reset('E', "controller", "Reconciler error")
		e.fields = append(append(e.begin("err"), text...), 0)
	} else {
		e.reset('E', "handler", "")
		e.msg = append(e.msg, text...)
		e.add("err", g.d.one(causes))
	}
	e.reconciling(g.d)
}

// long generates a line of 17 to 60 KB. Half of them also contain a text of a
// rule: near their start, or after the part that crowsnest reads.
func (g *writer) long() {
	d, e := g.d, &g.entry
	e.reset('I', "patch", "Applying patch")
	text := d.IntN(4)
	if text == 0 {
		e.fields = append(g.draw().appendSample(e.begin("err"), d), 0)
	}
	b := e.begin("patch")
	for end := len(b) + 17_000 + d.IntN(43_000); len(b) < end; {
		b = append(d.object(append(b, "{op: replace, path: /status/conditions, object: "...)), ", uid: "...)
		b = append(d.uuid(b), "}, "...)
	}
	e.fields = append(b, 0)
	if text == 1 {
		e.fields = append(g.draw().appendSample(e.begin("err"), d), 0)
	}
	e.reconciling(d)
}

// wrap writes the line like a container runtime, in parts if it is long, and
// sometimes if it is not. Lines of the other stream appear between the parts.
func (g *writer) wrap() {
	d := g.d
	stream, other := "stderr", "stdout"
	if d.IntN(10) == 0 {
		stream, other = other, stream
	}
	text, first := g.text, criPart
	if len(text) > 40 && d.chance(splitShare) {
		first = 1 + d.IntN(len(text)-1)
	}
	part := min(first, len(text))
	if part == len(text) {
		g.part(stream, 'F', text)
		return
	}
	pending := g.between()
	for part < len(text) {
		g.part(stream, 'P', text[:part])
		text = text[part:]
		part = min(criPart, len(text))
		if len(pending) > 0 {
			cut := len(pending) / 2
			g.part(other, 'P', pending[:cut])
			pending = pending[cut:]
			if d.IntN(2) == 0 {
				g.part(other, 'F', pending)
				pending = nil
			}
		}
	}
	g.part(stream, 'F', text)
	if len(pending) > 0 {
		g.part(other, 'F', pending)
	}
}

// between returns a line of the other stream, half of the time.
func (g *writer) between() []byte {
	if g.d.IntN(2) == 0 {
		return nil
	}
	var e entry
	e.ordinary(g.d)
	g.other = e.render(g.other[:0], klogText, g.now)
	return g.other
}

func (g *writer) part(stream string, tag byte, text []byte) {
	g.now = g.now.Add(time.Duration(1 + g.d.IntN(900)))
	b := g.now.AppendFormat(g.out, "2006-01-02T15:04:05.000000000Z ")
	b = append(append(b, stream...), ' ', tag, ' ')
	g.out = append(append(b, text...), '\n')
}

// WriteFile writes a log to a temporary file and renames it, so that the file
// is complete or absent.
func WriteFile(name string, size int64, opt Options) error {
	f, err := os.Create(name + ".part")
	if err != nil {
		return fmt.Errorf("write traffic: %w", err)
	}
	if err := errors.Join(Write(f, size, opt), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return fmt.Errorf("write traffic: %w", err)
	}
	return nil
}

// ParseSize parses a number of bytes such as 100MB. Units are powers of ten.
func ParseSize(s string) (int64, error) {
	unit := int64(1)
	digits := s
	for i, suffix := range []string{"KB", "MB", "GB"} {
		if d, ok := strings.CutSuffix(s, suffix); ok {
			digits, unit = d, int64(math.Pow10(3*(i+1)))
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > 1e15/unit {
		return 0, fmt.Errorf("%q is not a size: write a number with KB, MB or GB", s)
	}
	return n * unit, nil
}
