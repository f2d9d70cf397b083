package discover

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/internal/lazyre"
	"crowsnest/internal/wholelines"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
)

// Failure is a failure whose end is searched.
type Failure struct {
	Proposal Proposal
	Labels   map[string]string // of the stream of its line; empty: any stream
}

// Recoveries finds, for failures, the lines that say that they are over: lines of the same
// component about the same object that report success in similar words, after the failure and
// seldom while it lasts. Its memory is bounded. It is not safe for concurrent use.
type Recoveries struct {
	prog   *matcher.Program
	now    time.Time
	red    *redact.Redactor
	all    []*recovery
	reader lineReader
	buf    *matcher.Buffer
	lower  []byte
	masked []byte
	spans  []span
}

// recovery is the search for one failure.
type recovery struct {
	Failure
	label, value string
	stems        []string
	module       string
	lines        int // that report the failure
	found        map[string]*success
}

// success is a kind of line that may report the end of a failure.
type success struct {
	line    string
	module  string
	shared  int // stems of the failure in it
	count   int
	since   bool // it was read after the newest line of the failure
	between int  // how often the failure was reported again after it
}

// maxSuccesses bounds the kinds of lines per failure.
const maxSuccesses = 64

// NewRecoveries returns a search. now supplies the year for timestamps without one; the
// redactor, if not nil, hides secrets of what is found.
func NewRecoveries(all []Failure, now time.Time, red *redact.Redactor) (*Recoveries, error) {
	prog, err := matcher.Compile(&rules.Set{}) // it only parses lines
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	r := &Recoveries{prog: prog, buf: matcher.NewLineBuffer(), now: now, red: red}
	for _, f := range all {
		x := &recovery{Failure: f, stems: stems(f.Proposal.message + " " + f.Proposal.err), found: map[string]*success{}}
		x.label, x.value = SelectorOf(f.Labels)
		x.module = r.reader.module(f.Proposal.Line)
		r.all = append(r.all, x)
	}
	return r, nil
}

// Read searches an input. Inputs of one stream are read in order of time.
func (r *Recoveries) Read(in Input) error {
	rc, err := in.Open()
	if err != nil {
		return fmt.Errorf("read %s: %w", in.Name, err)
	}
	var of []*recovery
	for _, x := range r.all {
		if x.reads(in.Labels) {
			of = append(of, x)
		}
	}
	s := matcher.NewStream(in.Labels, matcher.StreamOptions{Lenient: true, TextTime: true})
	for lines := wholelines.New(rc, blockSize); err == nil && len(of) > 0; {
		var block []byte
		if block, _, err = lines.Next(); len(block) > 0 {
			r.prog.ScanInto(r.buf, s, block, r.now)
			r.take(of, r.buf.Lines())
		}
		lines.Release(block)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	r.prog.FlushInto(r.buf, s, r.now)
	r.take(of, r.buf.Lines())
	if err = errors.Join(err, rc.Close()); err != nil {
		return fmt.Errorf("read %s: %w", in.Name, err)
	}
	return nil
}

// reads reports whether the end of the failure may be in a stream.
func (x *recovery) reads(labels map[string]string) bool {
	return (x.label == "" || labels[x.label] == x.value) && (x.Labels["namespace"] == "" || labels["namespace"] == x.Labels["namespace"])
}

func (r *Recoveries) take(of []*recovery, lines []matcher.Line) {
	for i := range lines {
		r.line(of, lines[i].Text)
	}
}

// succeeded finds words that report success.
var succeeded = lazyre.New(`(?i)\b(success|successful|successfully|succeeded|acquired|recovered|reconciled|restored|completed|complete|finished|attached|bound|established|connected|resumed|renewed|healthy|ready|synced|elected|available|joined|provisioned|created|mounted|started|done|resolved)\b`)

// quick are letters that every success has, in lower case: most lines have none of them.
var quick = []string{"succe", "acqui", "recover", "reconciled", "restored", "complete", "finished", "attached", "bound", "establish", "connected", "resumed", "renewed", "healthy", "ready", "synced", "elected", "available", "joined", "provisioned", "created", "mounted", "started", "done", "resolved"}

func (r *Recoveries) line(of []*recovery, line string) {
	for _, x := range of {
		if !x.Proposal.matches(line) || x.Proposal.Object != "" && x.Proposal.valueIn(line) != x.Proposal.Value {
			continue
		}
		x.lines++
		for _, s := range x.found {
			if s.since {
				s.since, s.between = false, s.between+1
			}
		}
	}
	r.lower = append(r.lower[:0], line...)
	for i, c := range r.lower {
		r.lower[i] = lower(c)
	}
	if !slices.ContainsFunc(quick, func(q string) bool { return strings.Contains(string(r.lower), q) }) {
		return
	}
	var parsed *parsedLine
	for _, x := range of {
		if x.lines == 0 || x.Proposal.Value != "" && !strings.Contains(line, x.Proposal.Value) || x.Proposal.containsTexts(line) {
			continue
		}
		if parsed == nil {
			p := r.reader.readLine(line)
			parsed = &p
			r.masked = appendMasked(r.masked[:0], &r.spans, p.Message)
		}
		r.success(x, line, parsed)
	}
}

// success notes a line that may report the end of a failure.
func (r *Recoveries) success(x *recovery, line string, p *parsedLine) {
	var j judgement
	if j.judge(r.masked); j.weight > 0 || j.patience != 0 || p.Error != "" || p.Level >= levelWarning || !succeeded.MatchString(p.Message) {
		return
	}
	s := x.found[string(r.masked)]
	if s == nil {
		if len(x.found) == maxSuccesses {
			return
		}
		s = &success{line: strings.Clone(line), module: r.reader.module(line), shared: common(x.stems, stems(p.Message))}
		x.found[string(r.masked)] = s
	}
	s.count++
	s.since = true
}

// Clear returns the proposal for the line that ends failure i, if the logs have one. It
// captures the object of the failure.
func (r *Recoveries) Clear(i int) (Proposal, bool) {
	x := r.all[i]
	var best *success
	for _, key := range slices.Sorted(maps.Keys(x.found)) {
		s := x.found[key]
		if x.usable(s) && (best == nil || cmp.Or(cmp.Compare(s.shared, best.shared), cmp.Compare(x.near(s), x.near(best))) > 0) {
			best = s
		}
	}
	if best == nil {
		return Proposal{}, false
	}
	for _, q := range Propose(string(r.red.Text(best.line))) {
		if q.rename(&x.Proposal) {
			return q, true
		}
	}
	return Proposal{}, false
}

// usable reports whether a line may be the end of the failure: it shares a word with it, and
// it does not come again and again while the failure lasts.
func (x *recovery) usable(s *success) bool {
	need := 1
	if x.Proposal.Object == "" && x.near(s) == 0 {
		need = 2
	}
	return s.shared >= need && 2*s.between <= x.lines
}

// near is 1 if a line is of the same module as the failure.
func (x *recovery) near(s *success) int {
	if x.module != "" && x.module == s.module {
		return 1
	}
	return 0
}

// rename makes a proposal capture the object of another one under its name. It returns false
// if it captures another object, or none.
func (p *Proposal) rename(as *Proposal) bool {
	if as.Object == "" {
		return p.Object == ""
	}
	if p.Object == "" || p.Value != as.Value {
		return false
	}
	switch was := "(?P<" + p.Object + ">"; {
	case p.Object == as.Object:
	case p.Regex != "":
		p.Regex = strings.Replace(p.Regex, was, "(?P<"+as.Object+">", 1)
	case p.Field != "":
		p.FieldRegex = strings.Replace(p.FieldRegex, was, "(?P<"+as.Object+">", 1)
	default:
		p.Field, p.FieldRegex = p.Object, `(?P<`+as.Object+`>\S+)`
	}
	p.Object = as.Object
	return p.valueIn(p.Line) == as.Value
}

// stemLength is how many letters of two words must be equal: attach and attached.
const stemLength = 5

// stems returns the beginnings of the words of a text that distinguish it, sorted. Names,
// numbers and words that any failure or success has are none.
func stems(text string) []string {
	var buf []span
	var out []string
	for _, w := range words(unifyPlaceholders(string(appendMasked(nil, &buf, text)))) {
		w = strings.ToLower(w)
		if len(w) >= stemLength && complaints.ratings[w].weight == 0 && !strings.HasPrefix(w, "succe") {
			out = append(out, w[:stemLength])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
