package replay

import (
	"container/heap"
	"errors"
	"math"
	"slices"
	"time"

	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
)

// FileLabel is a label of inputs of which nothing says which pod wrote them. It
// belongs to the identity: what one file says ends no failure of another.
const FileLabel = "file"

var scanIdentity = append(slices.Clone(rules.DefaultIdentity), FileLabel)

// ScanOptions say how recorded lines are read.
type ScanOptions struct {
	// Lenient lets a label that an input does not state satisfy every selector.
	Lenient bool
	// UntilEOF stops the clock at the end of the input; otherwise it runs on
	// until every deadline is decided.
	UntilEOF bool
	// Now stands in for times that the lines do not have, and tells the year
	// of those that have none.
	Now time.Time
	// Redactor hides the secrets in alerts; nil leaves them.
	Redactor *redact.Redactor
	// End is the time up to which the input is known to be complete; zero: that of
	// its last line.
	End time.Time
	// OnHit, if not nil, is called for every hit in order of time. The hit must
	// not be changed.
	OnHit func(file string, h matcher.Hit)
	// OnWait, if not nil, is called before more of an input is read, which may
	// wait: every hit of what was read has been handed to OnHit.
	OnWait func(Progress)
	// HitsOnly leaves it at OnHit: nothing is concluded, and the report has no
	// alerts and no rules.
	HitsOnly bool
}

// Progress is what a scan has read so far.
type Progress struct {
	Bytes, Hits int64
}

// Alert is one alert that recorded lines raise.
type Alert struct {
	// Episode is its last state that the lines decide: one that only silence
	// behind the end of the input would resolve is firing.
	Episode episodes.Episode
	// Fired is the event time at which it would have been told.
	Fired time.Time
}

// RuleReport counts what one rule did.
type RuleReport struct {
	Rule     *rules.Rule
	Lines    int64 // that matched
	Episodes int   // that were opened, whether they fired or not
	Alerts   int
	// Notifications is how often a receiver without grouping would have been
	// told: the beginning and the end of each alert.
	Notifications int
}

// Report is the outcome of a scan.
type Report struct {
	Alerts  []Alert // in order of firing
	Rules   []RuleReport
	Inputs  int
	Lines   int64
	Bytes   int64
	Hits    int64
	Start   time.Time // event time of the first hit; zero: no hit
	End     time.Time // event time of the end of the input
	Dropped int64     // physical lines that were not looked at
	// Untimed are the names of the inputs with lines at whose beginning no line has
	// a time that is understood: most likely they are not logs.
	Untimed []string
	Empty   int // inputs without a line
	// Ignored counts the matched lines that a rule of the infrastructure does not
	// believe, if the program was compiled by matcher.CompileOpen.
	Ignored map[Ignored]int64
}

// Ignored is a rule, and a namespace that it does not believe.
type Ignored struct{ Rule, Namespace string }

// Scan reads the inputs, merged by event time, and concludes with the
// production engine. Inputs that cannot be read are left out; the error names
// them all and the report is complete but for them.
func Scan(set *rules.Set, prog *matcher.Program, inputs []Input, opt ScanOptions) (Report, error) {
	sc := newScanner(Target{set, prog}, opt)
	sc.report.Inputs = len(inputs)
	sc.readers = newReaders(inputs, prog, opt)
	for _, r := range sc.readers {
		r.wait = sc.wait
	}
	sc.start()
	for len(sc.heads) > 0 {
		sc.step()
	}
	sc.finish()
	return sc.report, errors.Join(sc.errs...)
}

type scanner struct {
	opt     ScanOptions
	readers []*reader
	heads   heads
	session *session
	report  Report
	alerts  map[episodes.Fingerprint]int // open ones, by index in the report
	began   bool                         // the first hit of each input is found
	ended   bool                         // the clock runs on behind the input
	errs    []error

	open   map[episodes.Fingerprint]bool // episodes
	opened map[string]int                // episodes by alert
	words  map[string]int                // notifications by alert
}

func newScanner(target Target, opt ScanOptions) *scanner {
	sc := &scanner{
		opt: opt, alerts: map[episodes.Fingerprint]int{}, open: map[episodes.Fingerprint]bool{},
		opened: map[string]int{}, words: map[string]int{},
	}
	sc.session = newSession(target.Set, target.Program, time.Time{}, episodes.Config{
		Redactor: opt.Redactor, Unlabelled: opt.Lenient, Identity: scanIdentity,
		UpdateEvery: math.MaxInt64, // refresh asks at the end
	})
	sc.session.told = sc.told
	return sc
}

// head is the next hit of one input.
type head struct {
	hit    matcher.Hit
	reader *reader
}

// heads is a heap in order of time, then of inputs.
type heads []head

func (h heads) Len() int      { return len(h) }
func (h heads) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h heads) Less(i, j int) bool {
	if !h[i].hit.Time.Equal(h[j].hit.Time) {
		return h[i].hit.Time.Before(h[j].hit.Time)
	}
	return h[i].reader.order < h[j].reader.order
}

// Push adds a head; it is for package heap.
func (h *heads) Push(x any) { *h = append(*h, x.(head)) }

// Pop removes the last head; it is for package heap.
func (h *heads) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// start finds the first hit of every input, on every core.
func (sc *scanner) start() {
	type first struct {
		hit matcher.Hit
		ok  bool
		err error
	}
	firsts := parallel(sc.readers, func(r *reader) (f first) {
		f.hit, f.ok, f.err = r.next()
		return f
	})
	for i, f := range firsts {
		if f.err != nil {
			sc.errs = append(sc.errs, f.err)
		}
		if f.ok {
			sc.heads = append(sc.heads, head{f.hit, sc.readers[i]})
		}
	}
	heap.Init(&sc.heads)
	sc.began = true
}

// step takes the earliest hit.
func (sc *scanner) step() {
	h := sc.heads[0]
	sc.take(h.reader.in.Name, h.hit)
	hit, ok, err := h.reader.next()
	if err != nil {
		sc.errs = append(sc.errs, err)
	}
	if ok {
		sc.heads[0] = head{hit, h.reader}
		heap.Fix(&sc.heads, 0)
	} else {
		heap.Pop(&sc.heads)
	}
}

// wait says that an input is read on. The first hits of all inputs are looked
// for at the same time; nothing is said then.
func (sc *scanner) wait() {
	if sc.opt.OnWait == nil || !sc.began {
		return
	}
	p := Progress{Hits: sc.report.Hits}
	for _, r := range sc.readers {
		p.Bytes += r.bytes
	}
	sc.opt.OnWait(p)
}

func (sc *scanner) take(file string, h matcher.Hit) {
	if !sc.session.set.Believes(h.Rule, h.Labels) {
		if sc.report.Ignored == nil {
			sc.report.Ignored = map[Ignored]int64{}
		}
		sc.report.Ignored[Ignored{h.Rule.Alert, h.Labels["namespace"]}]++
		return
	}
	if sc.report.Start.IsZero() {
		sc.report.Start = h.Time
		sc.session.now = h.Time
	}
	if h.Time.After(sc.session.now) && !sc.opt.HitsOnly {
		sc.session.reach(h.Time)
		sc.session.now = h.Time
	}
	sc.report.Hits++
	if sc.opt.OnHit != nil {
		sc.opt.OnHit(file, h)
	}
	if !sc.opt.HitsOnly {
		sc.session.engine.Take([]matcher.Hit{h}, sc.session.now)
		sc.session.evaluate()
	}
}

// told keeps the last state of each alert that the lines decide.
func (sc *scanner) told(x episodes.Episode) {
	sc.count(x)
	i, open := sc.alerts[x.Fingerprint]
	switch {
	case x.State == episodes.StateFiring && !open:
		sc.alerts[x.Fingerprint] = len(sc.report.Alerts)
		sc.report.Alerts = append(sc.report.Alerts, Alert{Episode: x, Fired: x.FiredAt})
	case x.State == episodes.StateFiring:
		sc.report.Alerts[i].Episode = x
	case x.State == episodes.StateResolved && open:
		delete(sc.alerts, x.Fingerprint)
		if !sc.ended || !x.EndsAt.After(sc.report.End) {
			sc.report.Alerts[i].Episode = x
		}
	}
}

// count counts episodes and what a receiver would have been told. The end of an
// alert counts also behind the end of the input.
func (sc *scanner) count(x episodes.Episode) {
	_, firing := sc.alerts[x.Fingerprint]
	over := x.State == episodes.StateResolved || x.State == episodes.StateDropped
	switch {
	case over:
		delete(sc.open, x.Fingerprint)
	case !sc.open[x.Fingerprint]:
		sc.open[x.Fingerprint] = true
		sc.opened[x.Alert]++
	}
	if !x.Silent && (x.State == episodes.StateFiring && !firing || x.State == episodes.StateResolved && firing) {
		sc.words[x.Alert]++
	}
}

// refresh takes the last state of the alerts that are firing at the end of the
// input.
func (sc *scanner) refresh(end time.Time) {
	for _, x := range sc.session.engine.Episodes(end) {
		if i, open := sc.alerts[x.Fingerprint]; open && x.State == episodes.StateFiring {
			sc.report.Alerts[i].Episode = x
		}
	}
}

// finish draws what is due at the end of the input, and then, unless told
// otherwise, lets the clock run on.
func (sc *scanner) finish() {
	s := sc.session
	end := s.now
	if sc.opt.End.After(end) {
		end = sc.opt.End
	}
	for _, r := range sc.readers {
		c := r.stream.Counters()
		sc.report.Lines += c.Lines
		sc.report.Bytes += c.Bytes
		sc.report.Dropped += c.Dropped
		if c.Lines == 0 {
			sc.report.Empty++
		} else if !r.timed {
			sc.report.Untimed = append(sc.report.Untimed, r.in.Name)
		}
		if t, ok := matcher.TimeOf(r.last, sc.opt.Now); ok && t.After(end) {
			end = t
		}
	}
	sc.report.End = end
	sc.ended = true
	if sc.opt.HitsOnly {
		return
	}
	if !end.IsZero() {
		s.reach(end)
		s.settle(end)
		sc.refresh(end)
	}
	for !sc.opt.UntilEOF {
		next, ok := s.engine.NextDeadline()
		if !ok {
			break
		}
		s.settle(next)
	}
	alerts := map[string]int{}
	for _, a := range sc.report.Alerts {
		alerts[a.Episode.Alert]++
	}
	for _, st := range s.engine.Stats(s.now).Rules {
		sc.report.Rules = append(sc.report.Rules, RuleReport{
			Rule: st.Rule, Lines: st.Matches, Alerts: alerts[st.Rule.Alert],
			Episodes: sc.opened[st.Rule.Alert], Notifications: sc.words[st.Rule.Alert],
		})
	}
}
