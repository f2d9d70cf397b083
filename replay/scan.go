package replay

import (
	"container/heap"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/times"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
	"crowsnest/rules/namespaces"
)

// ScanOptions configure a scan.
type ScanOptions struct {
	// Lenient makes a label that an input lacks satisfy every selector.
	Lenient bool
	// UntilEOF stops the clock at the end of the input; otherwise it continues
	// until the last deadline.
	UntilEOF bool
	// Now replaces missing timestamps, and supplies the year of timestamps without
	// one, if Until of their input is not earlier.
	Now time.Time
	// Redactor hides secrets in alerts; nil shows them.
	Redactor *redact.Redactor
	// End is the time up to which the input is complete; zero means the time of its
	// last line.
	End time.Time
	// OnHits, if not nil, is called with all hits in order of time, some of one input at a
	// time. It must not modify them; their lines and values are valid until it returns.
	OnHits func(file string, hits []matcher.Hit)
	// OnWait, if not nil, is called before a read, which may block. All earlier hits
	// have been passed to OnHits.
	OnWait func(Progress)
	// OnComplaints, if not nil, is called with the complaints in a block that no rule
	// matches, in the order of the blocks of an input. Inputs may be read concurrently. It
	// must not keep them.
	OnComplaints func(s *matcher.Stream, lines []matcher.Complaint)
	// Findings lists failures that the lines show without an alert.
	Findings bool
	// HitsOnly only calls OnHits: the scan draws no conclusions, and the report has
	// neither alerts nor rules.
	HitsOnly bool
	// Reads reports whether there may be lines of the streams that a selector selects:
	// nothing is concluded from the absence of others. It is of ScanRecords; nil means all.
	Reads func(rules.Selector) bool
}

// Progress is what a scan has read so far.
type Progress struct {
	Bytes, Hits int64
}

// Alert is an alert raised by recorded lines.
type Alert struct {
	// Episode is the last state that the lines decide: an alert that only silence
	// after the end of the input would resolve is firing.
	Episode episodes.Episode
	// Fired is the event time at which it would have been notified.
	Fired time.Time
	// Also is that of a Finding.
	Also []string
	// Assumes is a clause about what the lines do not show, such as that the failure goes on
	// after them; empty if there is nothing.
	Assumes string
}

// Fired returns how many alerts fired.
func (r *Report) Fired() int { return len(r.Alerts) + r.Omitted }

// RuleReport counts what one rule did.
type RuleReport struct {
	Rule     *rules.Rule
	Lines    int64 // matched
	Episodes int   // opened, whether they fired or not
	Alerts   int
	// Notifications is how many notifications a receiver without grouping would
	// have received: one for the beginning and one for the end of each alert.
	Notifications int
}

// Report is the outcome of a scan.
type Report struct {
	Alerts  []Alert // the first alerts, sorted by firing time
	Omitted int     // alerts beyond the bound
	Rules   []RuleReport
	Inputs  int
	Lines   int64
	Bytes   int64
	Hits    int64
	Start   time.Time // event time of the first hit; zero if there is no hit
	End     time.Time // event time of the end of the input
	Dropped int64     // physical lines that were not evaluated
	// Untimed are the names of inputs whose first lines have no parseable timestamp:
	// they are probably not logs.
	Untimed []string
	Empty   int // inputs without a line
	// Outcomes are those of the inputs, in their order.
	Outcomes []Outcome
	// Ignored counts lines of failures whose namespace an infrastructure rule does not
	// trust, if the program was compiled by matcher.CompileOpen.
	Ignored map[Ignored]int64
	// Findings are failures that the lines show and that are no alert, the most likely first,
	// if ScanOptions.Findings is set.
	Findings []Finding
	// Few are complaints of which there are far fewer than their rules ask for, beside an alert or
	// a finding.
	Few []Finding
	// FindingsOmitted counts states of further failures, beyond the bound.
	FindingsOmitted int
	// Covered is the time that the lines cover.
	Covered Coverage
	// Undecided counts failures that are open and do not fire, because no input has the
	// lines that could end them.
	Undecided map[Undecided]int
}

// Outcome is what reading one input returned.
type Outcome struct {
	Lines int64
	// Understood are the lines whose format is known: none without a single timestamp.
	Understood int64
	Hits       int64
	Truncated  int64 // lines whose end was not read
	Err        error // ended the reading
}

// Undecided is a rule, and the streams that no input has.
type Undecided struct{ Rule, From string }

// Ignored is a rule and a namespace that it does not trust.
type Ignored struct{ Rule, Namespace string }

// Scan reads the inputs, merged by event time, and runs the production engine over
// them. It omits inputs that cannot be read; the error names the first of them.
func Scan(set *rules.Set, prog *matcher.Program, inputs []Input, opt ScanOptions) (Report, error) {
	return scan(set, prog, inputs, opt, maxOpen)
}

// scan has at most a number of inputs open while it merges their hits.
func scan(set *rules.Set, prog *matcher.Program, inputs []Input, opt ScanOptions, most int) (Report, error) {
	sc := newScanner(Target{set, prog}, opt, Reads(set, inputs, opt.Lenient))
	sc.report.Inputs = len(inputs)
	sc.report.Outcomes = make([]Outcome, len(inputs))
	if sc.finder != nil {
		sc.inputs, sc.begins, sc.ends = inputs, make([]int64, len(inputs)), make([]int64, len(inputs))
	}
	if len(inputs) <= most {
		sc.open(inputs, newReaders(len(inputs), prog, opt))
	} else {
		hits, err := newSpool()
		if err != nil {
			return Report{}, err
		}
		defer hits.Close()
		sc.store(inputs, newReaders(runtime.GOMAXPROCS(0), prog, opt), hits)
	}
	heap.Init(&sc.heads)
	sc.began = true
	for len(sc.heads) > 0 {
		sc.step()
	}
	for i, r := range sc.readers {
		sc.count(i, r)
	}
	slices.Sort(sc.untimed)
	for _, i := range sc.untimed {
		sc.report.Untimed = append(sc.report.Untimed, inputs[i].Name)
	}
	sc.finish()
	return sc.report, joinBounded(sc.errs)
}

// Reads returns a function that reports whether an input can have the lines of a selector
// of the rules. lenient has the meaning that it has in ScanOptions.
func Reads(set *rules.Set, inputs []Input, lenient bool) func(rules.Selector) bool {
	var rest []rules.Selector   // selectors that match none of the inputs so far
	unread := map[string]bool{} // the same
	add := func(from rules.Selector) {
		if name := from.String(); !unread[name] {
			unread[name] = true
			rest = append(rest, from)
		}
	}
	for _, r := range set.Rules {
		for _, s := range r.Steps {
			add(s.From)
		}
		for _, part := range []*rules.ClearOrUnless{r.Clear, r.Unless} {
			if part != nil {
				add(part.From)
			}
		}
	}
	for i := range inputs {
		if len(rest) == 0 {
			break
		}
		labels := inputs[i].StreamLabels()
		rest = slices.DeleteFunc(rest, func(from rules.Selector) bool {
			yes := lenient && !inputs[i].Exact && from.MayMatch(labels) || from.Matches(labels, false)
			if yes {
				delete(unread, from.String())
			}
			return yes
		})
	}
	return func(from rules.Selector) bool { return !unread[from.String()] }
}

// maxNamed bounds the inputs that an error names.
const maxNamed = 20

func joinBounded(errs []error) error {
	if n := len(errs) - maxNamed; n > 0 {
		errs = append(errs[:maxNamed:maxNamed], fmt.Errorf("%d more inputs cannot be read", n))
	}
	return errors.Join(errs...)
}

// maxAlerts bounds the alerts of a report, which are kept until its end.
const maxAlerts = 5_000

// notKept is the index of an open alert that is not in the report.
const notKept = -1

type scanner struct {
	opt      ScanOptions
	readers  []*reader
	heads    heads
	session  *session
	report   Report
	alerts   map[episodes.Fingerprint]int // open ones, by index in the report
	began    bool                         // the first hit of each input was found
	ended    bool                         // the clock runs beyond the end of the input
	live     bool                         // lines do not move the clock: a Follower does
	errs     []error
	untimed  []int     // inputs
	first    time.Time // the earliest time of a first line
	last     time.Time // the latest time of a last line
	timeless timeless
	finder   *finder // nil unless findings are wanted
	// untrusted finds the failures of rules that do not trust the lines; nil before there is one.
	untrusted *finder
	newFinder func() *finder
	ignored   []matcher.Hit // buffer
	places    places
	input     int // input of the next hits

	inputs       []Input // nil without finder
	begins, ends []int64 // times of their first and last lines, 0 if unknown
	seed         maphash.Seed
	spans        map[uint64][2]int64 // the same by hash of their FileLabel; nil before it is needed

	pending       map[episodes.Fingerprint]bool // episodes
	opened        map[string]int                // episodes by alert
	notifications map[string]int                // notifications by alert
	fired         map[string]int                // alerts by name
}

// newScanner makes a scanner. reads reports whether lines of such streams are read; nil:
// all are.
func newScanner(target Target, opt ScanOptions, reads func(rules.Selector) bool) *scanner {
	sc := &scanner{
		opt: opt, seed: maphash.MakeSeed(), alerts: map[episodes.Fingerprint]int{}, pending: map[episodes.Fingerprint]bool{},
		opened: map[string]int{}, notifications: map[string]int{}, fired: map[string]int{},
	}
	cfg := episodes.Config{
		Redactor: opt.Redactor, Unlabelled: opt.Lenient, Identity: scanIdentity,
		UpdateEvery: math.MaxInt64, // refresh updates alerts at the end
	}
	if opt.Findings {
		sc.newFinder = func() *finder { return newFinder(target, cfg, &sc.timeless, reads) }
		sc.finder = sc.newFinder()
		sc.finder.elsewhere = func(x *episodes.Episode) (ending, bool) { return sc.places.endedElsewhere(x, sc.follows) }
	}
	sc.session = newSession(target.Set, target.Program, time.Time{}, cfg)
	sc.session.notify = sc.record
	sc.session.reads = reads
	sc.session.engine = sc.session.newEngine()
	return sc
}

// open finds the first hits of every input, on every core, and leaves the inputs open.
func (sc *scanner) open(inputs []Input, readers readers) {
	type first struct {
		ok  bool
		err error
	}
	for _, in := range inputs {
		r := readers.of(in)
		r.wait = sc.wait
		sc.readers = append(sc.readers, r)
	}
	firsts := parallel(sc.readers, func(r *reader) (f first) {
		f.ok, f.err = r.find()
		return f
	})
	for i, f := range firsts {
		sc.begin(i, sc.readers[i], f.ok, f.err)
	}
}

// store reads every input to its end, as many at the same time as there are cores, and
// stores the hits.
func (sc *scanner) store(inputs []Input, readers readers, hits *spool) {
	type stored struct {
		hits *spooled
		err  error
	}
	var mu sync.Mutex
	order := make([]int, len(inputs))
	for i := range order {
		order[i] = i
	}
	all := parallel(order, func(i int) (s stored) {
		r := readers.of(inputs[i])
		s.hits, s.err = hits.store(&inputs[i], r)
		mu.Lock()
		defer mu.Unlock()
		sc.count(i, r)
		return s
	})
	for i, s := range all {
		ok := s.hits != nil
		if ok {
			var err error
			ok, err = s.hits.find()
			s.err = errors.Join(s.err, err)
		}
		sc.begin(i, s.hits, ok, s.err)
	}
}

// begin notes the first hit of an input, if ok, and the error that ended its reading.
func (sc *scanner) begin(i int, f feed, ok bool, err error) {
	if err != nil {
		sc.errs = append(sc.errs, err)
	}
	if ok {
		sc.heads = append(sc.heads, head{f.found()[0].Time, i, f})
		f.park()
	}
}

// step takes the hits of one input that precede those of all others.
func (sc *scanner) step() {
	f := sc.heads[0].feed
	ok, err := f.find()
	if ok {
		sc.input = sc.heads[0].order
		hits := f.next(sc.heads.first())
		sc.timeless.settle(hits)
		sc.take(f.name(), hits)
		ok, err = f.find()
	}
	if err != nil {
		sc.errs = append(sc.errs, err)
	}
	if !ok {
		heap.Pop(&sc.heads)
		return
	}
	sc.heads[0].at = f.found()[0].Time
	heap.Fix(&sc.heads, 0)
	if sc.heads[0].feed != f {
		f.park()
	}
}

// count adds what reading an input returned.
func (sc *scanner) count(i int, r *reader) {
	c := r.counted
	sc.report.Lines += c.Lines
	sc.report.Bytes += c.Bytes
	sc.report.Dropped += c.Dropped
	sc.report.Outcomes[i] = r.outcome()
	if c.Lines == 0 {
		sc.report.Empty++
	} else if !r.timed {
		sc.untimed = append(sc.untimed, i)
	}
	if t, ok := matcher.TimeOf(r.last, r.opt.Until); ok {
		sc.last = times.Later(sc.last, t)
		if sc.ends != nil {
			sc.ends[i] = t.UnixNano()
		}
	}
	if r.timed && (sc.first.IsZero() || r.first.Before(sc.first)) {
		sc.first = r.first
	}
	if r.timed && sc.begins != nil {
		sc.begins[i] = r.first.UnixNano()
	}
}

// wait calls OnWait before an input is read. While the first hits of all inputs are
// searched concurrently, it does nothing.
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

// take takes hits of one input.
func (sc *scanner) take(file string, hits []matcher.Hit) {
	hits, untrusted := sc.trusted(hits)
	if sc.finder != nil && len(untrusted) > 0 {
		if sc.untrusted == nil {
			sc.untrusted = sc.newFinder()
		}
		sc.untrusted.take(sc.input, untrusted)
	}
	if len(hits) == 0 {
		return
	}
	if sc.report.Start.IsZero() {
		sc.report.Start = hits[0].Time
		if !sc.live {
			sc.session.now = hits[0].Time
		}
	}
	sc.report.Hits += int64(len(hits))
	if sc.opt.OnHits != nil {
		sc.opt.OnHits(file, hits)
	}
	if sc.opt.HitsOnly {
		return
	}
	hits = sc.places.keyed(hits)
	if sc.finder != nil {
		sc.finder.take(sc.input, hits)
	}
	switch {
	case sc.live:
		for i := range hits {
			sc.session.engine.Take(hits[i:i+1], sc.session.now)
			sc.session.evaluate()
		}
	default:
		sc.session.takeRecorded(hits)
	}
}

// trusted separates hits of rules that do not trust their streams, and counts them. It returns
// those whose lines no other rule matches.
func (sc *scanner) trusted(hits []matcher.Hit) (trusted, untrusted []matcher.Hit) {
	n := 0
	sc.ignored = sc.ignored[:0]
	for i := range hits {
		h := &hits[i]
		if !sc.session.set.Trusts(h.Rule, h.Labels) {
			if sc.report.Ignored == nil {
				sc.report.Ignored = map[Ignored]int64{}
			}
			if h.Part >= 0 { // a line that would end a failure is no sign of one
				sc.report.Ignored[Ignored{h.Rule.Alert, h.Labels["namespace"]}]++
			}
			sc.ignored = append(sc.ignored, *h)
			continue
		}
		if n < i {
			hits[n] = *h
		}
		n++
	}
	trusted, untrusted = hits[:n], sc.ignored[:0]
	k := 0
	for _, h := range sc.ignored {
		for k < n && trusted[k].LineNumber < h.LineNumber {
			k++
		}
		if k == n || trusted[k].LineNumber != h.LineNumber {
			untrusted = append(untrusted, h)
		}
	}
	return trusted, untrusted
}

// record stores the last state of each alert that the lines decide.
func (sc *scanner) record(x episodes.Episode) {
	sc.session.resolved = sc.session.resolved[:0]
	if sc.ended && (x.StoppedLines() || x.Overflow && x.Rule.Silent > 0) && x.StartsAt.After(sc.report.End) {
		return // nobody knows which lines followed
	}
	if sc.timeless.silences(&x) {
		return
	}
	sc.tally(x)
	i, open := sc.alerts[x.Fingerprint]
	switch {
	case x.State == episodes.StateFiring && !open:
		sc.fired[x.Alert]++
		sc.finder.fired(&x)
		if len(sc.report.Alerts) == maxAlerts {
			sc.report.Omitted++
			sc.alerts[x.Fingerprint] = notKept
			return
		}
		sc.alerts[x.Fingerprint] = len(sc.report.Alerts)
		sc.report.Alerts = append(sc.report.Alerts, Alert{Episode: x, Fired: x.FiredAt})
	case x.State == episodes.StateFiring && i != notKept:
		sc.report.Alerts[i].Episode = x
	case x.State == episodes.StateResolved && open:
		delete(sc.alerts, x.Fingerprint)
		if i != notKept && (!sc.ended || !x.EndsAt.After(sc.report.End)) {
			sc.report.Alerts[i].Episode = x
		}
	}
}

// tally counts episodes and notifications. The end of an alert counts also if it is
// after the end of the input.
func (sc *scanner) tally(x episodes.Episode) {
	_, firing := sc.alerts[x.Fingerprint]
	over := x.State == episodes.StateResolved || x.State == episodes.StateDropped
	switch {
	case over:
		delete(sc.pending, x.Fingerprint)
	case !sc.pending[x.Fingerprint]:
		sc.pending[x.Fingerprint] = true
		sc.opened[x.Alert]++
	}
	if !x.Silent && (x.State == episodes.StateFiring && !firing || x.State == episodes.StateResolved && firing) {
		sc.notifications[x.Alert]++
	}
}

// refresh updates the alerts that are firing at the end of the input.
func (sc *scanner) refresh(end time.Time) {
	for _, x := range sc.session.engine.Episodes(end) {
		if i, open := sc.alerts[x.Fingerprint]; open && i != notKept && x.State == episodes.StateFiring {
			sc.report.Alerts[i].Episode = x
		}
	}
}

// finish draws the conclusions due at the end of the input, and then lets the clock run
// on unless UntilEOF is set.
func (sc *scanner) finish() {
	s := sc.session
	end := s.now
	if sc.opt.End.After(end) {
		end = sc.opt.End
	}
	end = times.Later(end, sc.last)
	sc.report.End = end
	if sc.finder != nil && !sc.first.IsZero() && !sc.finder.first.IsZero() && sc.finder.first.Before(sc.first) {
		sc.first = sc.finder.first // the lines are not in the order of their times
	}
	sc.report.Covered = Coverage{sc.first, end}
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
	sc.findUndecided()
	sc.findFindings()
	sc.forgetTimes()
	for _, st := range s.engine.Stats(s.now).Rules {
		sc.report.Rules = append(sc.report.Rules, RuleReport{
			Rule: st.Rule, Lines: st.Matches, Alerts: sc.fired[st.Rule.Alert],
			Episodes: sc.opened[st.Rule.Alert], Notifications: sc.notifications[st.Rule.Alert],
		})
	}
}

// findFindings lists the failures that are no alerts.
func (sc *scanner) findFindings() {
	if sc.finder == nil {
		return
	}
	sc.reconsider()
	sc.report.Findings, sc.report.Few = sc.finder.findings(sc.report.Covered, sc.ends, sc.report.Outcomes, sc.report.Alerts)
	sc.report.FindingsOmitted = sc.finder.omitted
	if sc.untrusted == nil {
		return
	}
	shown, _ := sc.untrusted.findings(sc.report.Covered, sc.ends, sc.report.Outcomes, nil)
	for _, x := range shown {
		if x.Doubt != Recovered {
			x.Doubt, x.Missing = Untrusted, sc.distrust(x.Episode.Alert)
			sc.report.Findings = append(sc.report.Findings, x)
		}
	}
	sc.report.FindingsOmitted += sc.untrusted.omitted
}

// distrust says which namespaces a rule does not trust, and how it would.
func (sc *scanner) distrust(rule string) string {
	var names, fix []string
	for x := range sc.report.Ignored {
		if x.Rule == rule && namespaces.Check("+"+x.Namespace) == nil {
			names = append(names, x.Namespace)
		}
	}
	slices.Sort(names)
	for _, name := range names[:min(len(names), maxDistrusted)] {
		fix = append(fix, "+"+name)
	}
	const why = "the rule trusts only infrastructure namespaces"
	if len(fix) == 0 {
		return why
	}
	return fmt.Sprintf("%s; if no tenant can create pods there, scan with --infrastructure-namespaces=%s, and in the configuration set rules.infrastructure_namespaces: [%s]",
		why, strings.Join(fix, ","), strings.Join(fix, ", "))
}

// maxDistrusted is how many namespaces distrust names.
const maxDistrusted = 3

// forgetTimes sets the times of the report to zero that no line states.
func (sc *scanner) forgetTimes() {
	for i := range sc.report.Alerts {
		a := &sc.report.Alerts[i]
		if sc.timeless.has(&a.Episode) {
			a.Fired = time.Time{}
		}
		sc.timeless.forget(&a.Episode)
	}
	for _, list := range [][]Finding{sc.report.Findings, sc.report.Few} {
		for i := range list {
			sc.timeless.forget(&list[i].Episode)
			for k := range list[i].Others {
				sc.timeless.forget(&list[i].Others[k])
			}
		}
	}
	if sc.timeless.at(sc.report.Start) {
		sc.report.Start, sc.report.End = time.Time{}, time.Time{}
	}
}

// reconsider says what the firing alerts assume. Those that a line of another file may have ended
// in time become findings, and so do those that assume times that no line states.
func (sc *scanner) reconsider() {
	kept := sc.report.Alerts[:0]
	for _, a := range sc.report.Alerts {
		if sc.timeless.has(&a.Episode) && asksForTime(a.Episode.Rule) {
			if a.Episode.Rule.Silent == 0 {
				sc.finder.doubted = append(sc.finder.doubted, a.Episode)
			}
			sc.fired[a.Episode.Alert]--
			continue
		}
		if a.Episode.State == episodes.StateFiring {
			e, ok := sc.finder.elsewhere(&a.Episode)
			if ok && !a.Fired.Before(e.at) {
				sc.finder.doubted = append(sc.finder.doubted, a.Episode)
				sc.fired[a.Episode.Alert]--
				continue
			}
			switch end := sc.report.End; {
			case ok:
				a.Assumes = "that it is not over: a line of " + e.String() + " ends it, unless that log is of another place"
			case !end.IsZero() && a.Fired.After(end):
				a.Assumes = "that the failure goes on after the log ends, at " + end.UTC().Format(time.RFC3339)
			}
		}
		kept = append(kept, a)
	}
	sc.report.Alerts = kept
}

// follows reports whether every line of a file is later than those of another. Files are named by
// their FileLabel.
func (sc *scanner) follows(file, other string) bool {
	if sc.spans == nil {
		sc.spans = map[uint64][2]int64{}
		for i := range sc.inputs {
			if name := sc.inputs[i].StreamLabels()[FileLabel]; name != "" {
				id, begin, end := maphash.String(sc.seed, name), sc.begins[i], sc.ends[i]
				if x, ok := sc.spans[id]; ok {
					begin, end = min(begin, x[0]), max(end, x[1])
				}
				sc.spans[id] = [2]int64{begin, end}
			}
		}
	}
	x, ok := sc.spans[maphash.String(sc.seed, file)]
	y, known := sc.spans[maphash.String(sc.seed, other)]
	return ok && known && x[0] > 0 && y[1] > 0 && y[1] <= x[0]
}

// findUndecided counts the open failures that wait for lines that no input has.
func (sc *scanner) findUndecided() {
	if sc.session.reads == nil {
		return
	}
	for _, x := range sc.session.engine.Episodes(sc.session.now) {
		if x.State != episodes.StatePending {
			continue
		}
		for _, part := range []*rules.ClearOrUnless{x.Rule.Clear, x.Rule.Unless} {
			if part == nil || sc.session.reads(part.From) {
				continue
			}
			if sc.report.Undecided == nil {
				sc.report.Undecided = map[Undecided]int{}
			}
			sc.report.Undecided[Undecided{x.Rule.Alert, part.From.String()}]++
			break
		}
	}
}
