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
	"sync/atomic"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/times"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
	"crowsnest/rules/namespaces"
)

// ScanOptions configures a scan.
type ScanOptions struct {
	// Lenient means that a label that an input lacks satisfies every condition of a selector.
	Lenient bool
	// UntilEOF stops the clock at the end of the input. Otherwise the clock runs on until the last deadline.
	UntilEOF bool
	// Now is the time for lines without a timestamp. It also determines the year of timestamps without a year, unless
	// the input's Until is earlier.
	Now time.Time
	// Redactor hides secrets in alerts. If it is nil, secrets are not hidden.
	Redactor *redact.Redactor
	// End is the time up to which the input is complete. Zero means the time of the last line.
	End time.Time
	// OnHits is called with all hits in the order of time. Each call gets hits of one input. The function must not
	// modify the hits. Their lines and values are valid until it returns. It may be nil.
	OnHits func(file string, hits []matcher.Hit)
	// OnWait is called before a read that may block. At that time OnHits has received all earlier hits. It may be nil.
	OnWait func(Progress)
	// OnComplaints is called with the lines in a block that report a problem but match no rule, in the order of the
	// blocks of an input. It may be called concurrently for different inputs. It must not keep references to the lines.
	// It may be nil.
	OnComplaints func(s *matcher.Stream, lines []matcher.Complaint)
	// Findings enables the list of failures that did not become an alert.
	Findings bool
	// HitsOnly limits the scan to calling OnHits. The scan draws no conclusions, and the report contains neither alerts
	// nor rules.
	HitsOnly bool
	// Reads reports whether lines of the selected streams may exist. If it returns false, nothing is concluded from
	// their absence. If it is nil, lines of all streams may exist. Only ScanRecords uses it.
	Reads func(rules.Selector) bool
}

// Progress states how much of the input a scan has read.
type Progress struct {
	Bytes, Hits int64
}

// Alert is an alert that recorded lines raise.
type Alert struct {
	// Episode is the last state that follows from the lines. If only silence after the end of the input would resolve
	// an alert, its state is firing.
	Episode episodes.Episode
	// FiredAt is the event time at which a receiver would have been notified of the alert.
	FiredAt time.Time
	// OtherRules are the names of other rules about the same failure, as in Finding.OtherRules.
	OtherRules []string
	// Assumes is a clause about a condition that the lines do not show, for example that the failure continues after
	// them. It is "" if nothing is assumed.
	Assumes string
}

// Fired returns the number of alerts that fired.
func (r *Report) Fired() int { return len(r.Alerts) + r.Omitted }

// RuleReport counts the results of one rule.
type RuleReport struct {
	Rule     *rules.Rule
	Lines    int64 // number of lines that matched
	Episodes int   // number of episodes, including those that did not fire
	Alerts   int
	// Notifications is the number of notifications that a receiver without grouping gets. The receiver gets one
	// notification of the beginning and one of the end of each alert.
	Notifications int
}

// Report is the result of a scan.
type Report struct {
	Alerts  []Alert // first maxAlerts alerts, sorted by firing time
	Omitted int     // number of further alerts, which are not in Alerts
	Rules   []RuleReport
	Inputs  int
	Lines   int64
	Bytes   int64
	Hits    int64
	Start   time.Time // event time of the first hit; zero if there is none
	End     time.Time // event time of the end of the input
	Dropped int64     // number of physical lines that were not evaluated
	// Untimed are the names of inputs whose first lines have no valid timestamp. Such inputs are probably not logs.
	Untimed []string
	Empty   int // number of inputs without lines
	// Outcomes are the results of reading the inputs, in the order of the inputs.
	Outcomes []Outcome
	// UntrustedLines counts matching lines whose namespace an infrastructure rule does not trust. It is set only for a program
	// of matcher.CompileOpen.
	UntrustedLines map[RuleNamespace]int64
	// Findings are failures that lines show but that did not become an alert, the most likely first. They are set only
	// if ScanOptions.Findings is set.
	Findings []Finding
	// FewLineFindings are failures with far fewer lines than required. They are set only if there is also an alert or a finding.
	FewLineFindings []Finding
	// FindingsOmitted is the number of state changes of failures beyond maxFound.
	FindingsOmitted int
	// Coverage is the time from the first to the last line.
	Coverage Coverage
	// Undecided counts open failures that do not fire because no input can have the lines that would end them.
	Undecided map[RuleSelector]int
}

// Outcome is the result of reading one input.
type Outcome struct {
	Lines int64
	// Understood is the number of lines in a known format. It is zero if no line has a timestamp.
	Understood int64
	Hits       int64
	Truncated  int64 // number of lines that were cut off at the end of the input
	// From and Until are the times of the first and the last line with a timestamp. They are zero if there is none.
	From, Until time.Time
	Err         error // error that ended the reading
}

// RuleSelector is a rule with one of its selectors, which selects no input.
type RuleSelector struct{ Rule, Selector string }

// RuleNamespace is a rule with a namespace that the rule does not trust.
type RuleNamespace struct{ Rule, Namespace string }

// Scan reads the inputs, merges their lines by event time, and runs the production engine over them. It omits inputs
// that cannot be read. Then the error names the first of these inputs.
func Scan(set *rules.Set, prog *matcher.Program, inputs []Input, opt ScanOptions) (Report, error) {
	return scanInputs(set, prog, inputs, opt, maxOpen)
}

// scanInputs scans the inputs. most is the largest number of inputs that are open while their hits are merged.
func scanInputs(set *rules.Set, prog *matcher.Program, inputs []Input, opt ScanOptions, most int) (Report, error) {
	sc := newScanner(Target{set, prog}, opt, Reads(set, inputs, opt.Lenient))
	sc.report.Inputs = len(inputs)
	sc.report.Outcomes = make([]Outcome, len(inputs))
	sc.inputs = inputs
	if len(inputs) <= most {
		sc.openInputs(inputs, newReaders(len(inputs), prog, opt))
	} else {
		hits, err := newSpool()
		if err != nil {
			return Report{}, err
		}
		defer func() { _ = hits.Close() }()
		sc.storeInputs(inputs, newReaders(runtime.GOMAXPROCS(0), prog, opt), hits)
	}
	heap.Init(&sc.heads)
	sc.began = true
	for len(sc.heads) > 0 {
		sc.takeNext()
	}
	for i, r := range sc.readers {
		sc.countOutcome(i, r)
	}
	slices.Sort(sc.untimed)
	for _, i := range sc.untimed {
		sc.report.Untimed = append(sc.report.Untimed, inputs[i].Name)
	}
	sc.finishClock()
	return sc.report, joinBounded(sc.errs)
}

// Reads returns a function that reports whether an input can have lines of a selector in the rules. lenient is the
// value of ScanOptions.Lenient.
func Reads(set *rules.Set, inputs []Input, lenient bool) func(rules.Selector) bool {
	var rest []rules.Selector   // selectors that match no input that was checked so far
	unread := map[string]bool{} // names of the selectors in rest
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

// maxNamed is the maximum number of inputs that an error names.
const maxNamed = 20

func joinBounded(errs []error) error {
	if n := len(errs) - maxNamed; n > 0 {
		errs = append(errs[:maxNamed:maxNamed], fmt.Errorf("%d more inputs cannot be read", n))
	}
	return errors.Join(errs...)
}

// maxAlerts is the maximum number of alerts in a report, because a report is in memory.
const maxAlerts = 5_000

// notKept replaces the index of an open alert that is not in the report.
const notKept = -1

type scanner struct {
	opt      ScanOptions
	readers  []*reader
	heads    heads
	session  *session
	report   Report
	alerts   map[episodes.Fingerprint]int // index in the report of each open alert, by fingerprint
	onAlert  func(episodes.Episode)       // called when an alert fires and when it resolves, in place of keeping it in the report; may be nil
	began    bool                         // whether the search for the first hit of each input is complete
	ended    bool                         // whether the clock has passed the end of the input
	live     bool                         // whether a Follower moves the clock, not the times of lines
	errs     []error
	untimed  []int     // indexes of inputs without timestamps
	first    time.Time // earliest time of the first line of an input
	last     time.Time // latest time of the last line of an input
	timeless timeless
	finder   *finder // finder of findings; nil if findings are not wanted
	// untrusted finds failures of rules that do not trust their lines. It is nil until there is such a line.
	untrusted *finder
	newFinder func(alerting bool) *finder
	ignored   []matcher.Hit // reused buffer
	places    places
	input     int // index of the input of the next hits

	inputs []Input
	seed   maphash.Seed
	spans  map[uint64][2]time.Time // times of the first and last line of each file, by hash of the FileLabel; nil until it is needed

	pending       map[episodes.Fingerprint]bool // fingerprints of episodes that have not fired yet
	opened        map[string]int                // number of episodes by alert name
	notifications map[string]int                // number of notifications by alert name
	fired         map[string]int                // number of alerts by alert name
}

// newScanner returns a scanner. If reads is nil, lines of all streams may exist.
func newScanner(target Target, opt ScanOptions, reads func(rules.Selector) bool) *scanner {
	sc := &scanner{
		opt: opt, seed: maphash.MakeSeed(), alerts: map[episodes.Fingerprint]int{}, pending: map[episodes.Fingerprint]bool{},
		opened: map[string]int{}, notifications: map[string]int{}, fired: map[string]int{},
	}
	cfg := episodes.Config{
		Redactor: opt.Redactor, Cleaner: episodes.NewCleaner(opt.Redactor), Unlabelled: opt.Lenient, Identity: scanIdentity,
		UpdateEvery: math.MaxInt64, // no updates, because refreshFiring updates the alerts at the end
	}
	if opt.Findings {
		sc.newFinder = func(alerting bool) *finder { return newFinder(target, cfg, &sc.timeless, reads, alerting) }
		sc.finder = sc.newFinder(true)
		sc.finder.elsewhere = func(x *episodes.Episode) (lastClear, bool) { return sc.places.endedElsewhere(x, sc.isLater) }
	}
	sc.session = newIdleSession(target.Set, target.Program, time.Time{}, cfg)
	sc.session.notify = sc.recordAlert
	sc.session.reads = reads
	sc.session.engine = sc.session.newEngine()
	return sc
}

// openInputs searches every input for its first hits, on all cores, and leaves the inputs open.
func (sc *scanner) openInputs(inputs []Input, readers readers) {
	for _, in := range inputs {
		r := readers.newReader(in)
		r.wait = sc.beforeWait
		sc.readers = append(sc.readers, r)
	}
	errs := runParallel(len(inputs), func(i int) error {
		_, err := sc.readers[i].fill()
		return err
	})
	for i, r := range sc.readers {
		sc.noteFirst(i, r, errs[i])
	}
}

// storeInputs reads every input to its end and stores the hits in a temporary file. It reads one input per core at a
// time.
func (sc *scanner) storeInputs(inputs []Input, readers readers, hits *spool) {
	var mu sync.Mutex
	all := make([]spooledHits, len(inputs))
	errs := runParallel(len(inputs), func(i int) error {
		r := readers.newReader(inputs[i])
		all[i] = spooledHits{in: &inputs[i], spool: hits}
		err := all[i].storeHits(r)
		mu.Lock()
		defer mu.Unlock()
		sc.countOutcome(i, r)
		return err
	})
	for i := range all {
		_, err := all[i].fill()
		sc.noteFirst(i, &all[i], errors.Join(errs[i], err))
	}
}

// noteFirst adds input i to the merge if it has hits, and records the error that ended its reading.
func (sc *scanner) noteFirst(i int, f feed, err error) {
	if err != nil {
		sc.errs = append(sc.errs, err)
	}
	if hits := f.available(); len(hits) > 0 {
		sc.heads = append(sc.heads, head{hits[0].Time, i, f})
		f.park()
	}
}

// takeNext processes the hits of one input that come before the hits of all other inputs.
func (sc *scanner) takeNext() {
	f := sc.heads[0].feed
	ok, err := f.fill()
	if ok {
		sc.input = sc.heads[0].order
		hits := f.next(sc.heads.countPreceding())
		sc.timeless.moveUndated(hits)
		sc.takeHits(f.name(), hits)
		ok, err = f.fill()
	}
	if err != nil {
		sc.errs = append(sc.errs, err)
	}
	if !ok {
		heap.Pop(&sc.heads)
		return
	}
	sc.heads[0].at = f.available()[0].Time
	heap.Fix(&sc.heads, 0)
	if sc.heads[0].feed != f {
		f.park()
	}
}

func (sc *scanner) countOutcome(i int, r *reader) {
	c, out := r.counted, r.outcome()
	sc.report.Lines += c.Lines
	sc.report.Bytes += c.Bytes
	sc.report.Dropped += c.Dropped
	sc.report.Outcomes[i] = out
	if c.Lines == 0 {
		sc.report.Empty++
	} else if !r.timed {
		sc.untimed = append(sc.untimed, i)
	}
	sc.last = times.Max(sc.last, out.Until)
	if !out.From.IsZero() && (sc.first.IsZero() || out.From.Before(sc.first)) {
		sc.first = out.From
	}
}

// beforeWait calls OnWait before an input is read. It does nothing during the concurrent search for the first hits.
func (sc *scanner) beforeWait() {
	if sc.opt.OnWait == nil || !sc.began {
		return
	}
	p := Progress{Hits: sc.report.Hits}
	for _, r := range sc.readers {
		p.Bytes += r.bytes
	}
	sc.opt.OnWait(p)
}

func (sc *scanner) takeHits(file string, hits []matcher.Hit) {
	hits, untrusted := sc.splitTrusted(hits)
	if sc.finder != nil && len(untrusted) > 0 {
		if sc.untrusted == nil {
			sc.untrusted = sc.newFinder(false)
		}
		sc.untrusted.addHits(sc.input, untrusted)
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
	hits = sc.places.keyedHits(hits)
	if sc.finder != nil {
		sc.finder.addHits(sc.input, hits)
	}
	switch {
	case sc.live:
		for i := range hits {
			sc.session.engine.Take(hits[i:i+1], sc.session.now)
			sc.session.evaluateEngine()
		}
	default:
		sc.session.takeRecorded(hits)
	}
}

// splitTrusted separates hits of rules that do not trust their streams from the other hits, and counts the separated
// hits. untrusted contains the separated hits whose lines no other rule matches.
func (sc *scanner) splitTrusted(hits []matcher.Hit) (trusted, untrusted []matcher.Hit) {
	n := 0
	sc.ignored = sc.ignored[:0]
	for i := range hits {
		h := &hits[i]
		if !sc.session.set.Trusts(h.Rule, h.Labels) {
			if sc.report.UntrustedLines == nil {
				sc.report.UntrustedLines = map[RuleNamespace]int64{}
			}
			if h.Part >= 0 { // a line that ends a failure is no evidence of a failure
				sc.report.UntrustedLines[RuleNamespace{h.Rule.Alert, h.Labels["namespace"]}]++
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

// recordAlert stores the last state of each alert that follows from the lines, or passes its changes to onAlert.
func (sc *scanner) recordAlert(x episodes.Episode) {
	sc.session.resolved = sc.session.resolved[:0]
	if sc.ended && (x.StoppedLines() || x.Overflow && x.Rule.Silent > 0) && x.StartsAt.After(sc.report.End) {
		return // this state depends on lines after the end of the input, which are not known
	}
	if sc.timeless.endsBySilence(&x) {
		return
	}
	sc.countEpisode(x)
	i, open := sc.alerts[x.Fingerprint]
	switch {
	case x.State == episodes.StateFiring && !open:
		sc.fired[x.Alert]++
		sc.finder.noteFired(&x)
		sc.alerts[x.Fingerprint] = notKept
		switch {
		case sc.onAlert != nil:
			sc.onAlert(x)
		case len(sc.report.Alerts) == maxAlerts:
			sc.report.Omitted++
		default:
			sc.alerts[x.Fingerprint] = len(sc.report.Alerts)
			sc.report.Alerts = append(sc.report.Alerts, Alert{Episode: x, FiredAt: x.FiredAt})
		}
	case x.State == episodes.StateFiring && i != notKept:
		sc.report.Alerts[i].Episode = x
	case x.State == episodes.StateResolved && open:
		delete(sc.alerts, x.Fingerprint)
		switch {
		case sc.ended && x.EndsAt.After(sc.report.End): // only the silence after the end of the input ended the alert
		case sc.onAlert != nil:
			sc.onAlert(x)
		case i != notKept:
			sc.report.Alerts[i].Episode = x
		}
	}
}

// countEpisode counts episodes and notifications, including ends after the end of the input.
func (sc *scanner) countEpisode(x episodes.Episode) {
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

// refreshFiring updates the alerts that are firing at the end of the input.
func (sc *scanner) refreshFiring(end time.Time) {
	for _, x := range sc.session.engine.Episodes(end) {
		if i, open := sc.alerts[x.Fingerprint]; open && i != notKept && x.State == episodes.StateFiring {
			sc.report.Alerts[i].Episode = x
		}
	}
}

// finishClock draws the conclusions that are due at the end of the input. Unless UntilEOF is set, it then lets the
// clock run on until the last deadline.
func (sc *scanner) finishClock() {
	s := sc.session
	end := s.now
	if sc.opt.End.After(end) {
		end = sc.opt.End
	}
	end = times.Max(end, sc.last)
	sc.report.End = end
	if sc.finder != nil && !sc.first.IsZero() && !sc.finder.first.IsZero() && sc.finder.first.Before(sc.first) {
		sc.first = sc.finder.first // the lines may not be in the order of their times
	}
	sc.report.Coverage = Coverage{sc.first, end}
	sc.ended = true
	if sc.opt.HitsOnly {
		return
	}
	if !end.IsZero() {
		s.reachTime(end)
		s.settleAt(end)
		sc.refreshFiring(end)
	}
	for !sc.opt.UntilEOF {
		next, ok := s.engine.NextDeadline()
		if !ok {
			break
		}
		s.settleAt(next)
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

func (sc *scanner) findFindings() {
	if sc.finder == nil {
		return
	}
	sc.noteAssumptions()
	sc.report.Findings, sc.report.FewLineFindings = sc.finder.listFindings(sc.report.Coverage, sc.report.Outcomes, sc.report.Alerts)
	sc.report.FindingsOmitted = sc.finder.omitted
	if sc.untrusted == nil {
		return
	}
	shown, _ := sc.untrusted.listFindings(sc.report.Coverage, sc.report.Outcomes, nil)
	for _, x := range shown {
		if x.Doubt != Recovered {
			x.Doubt, x.Missing = Untrusted, sc.whyDistrusted(x.Episode.Alert)
			sc.report.Findings = append(sc.report.Findings, x)
		}
	}
	sc.report.FindingsOmitted += sc.untrusted.omitted
}

// whyDistrusted returns a text that names the namespaces that a rule does not trust, and explains how the rule can
// trust them.
func (sc *scanner) whyDistrusted(rule string) string {
	var names, fix []string
	for x := range sc.report.UntrustedLines {
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

// maxDistrusted is the maximum number of namespaces that whyDistrusted names.
const maxDistrusted = 3

// forgetTimes sets the times of the report that come from no timestamp to zero.
func (sc *scanner) forgetTimes() {
	for i := range sc.report.Alerts {
		a := &sc.report.Alerts[i]
		if sc.timeless.isUndated(&a.Episode) {
			a.FiredAt = time.Time{}
		}
		sc.timeless.clearTimes(&a.Episode)
	}
	for _, list := range [][]Finding{sc.report.Findings, sc.report.FewLineFindings} {
		for i := range list {
			sc.timeless.clearTimes(&list[i].Episode)
			for k := range list[i].OtherFailures {
				sc.timeless.clearTimes(&list[i].OtherFailures[k])
			}
		}
	}
	if sc.timeless.isTimeless(sc.report.Start) {
		sc.report.Start, sc.report.End = time.Time{}, time.Time{}
	}
}

// noteAssumptions sets the assumption of each firing alert. An alert becomes a finding if a line of another file may
// have ended the failure in time, or if the alert needs times that the lines do not have.
func (sc *scanner) noteAssumptions() {
	kept := sc.report.Alerts[:0]
	for _, a := range sc.report.Alerts {
		if sc.timeless.isUndated(&a.Episode) && asksForTime(a.Episode.Rule) {
			if a.Episode.Rule.Silent == 0 {
				sc.finder.doubted = append(sc.finder.doubted, a.Episode)
			}
			sc.fired[a.Episode.Alert]--
			continue
		}
		if a.Episode.State == episodes.StateFiring {
			e, ok := sc.finder.elsewhere(&a.Episode)
			if ok && !a.FiredAt.Before(e.at) {
				sc.finder.doubted = append(sc.finder.doubted, a.Episode)
				sc.fired[a.Episode.Alert]--
				continue
			}
			switch end := sc.report.End; {
			case ok:
				a.Assumes = "that it is not over: a line of " + e.String() + " ends it, unless that log is of another place"
			case !end.IsZero() && a.FiredAt.After(end):
				a.Assumes = "that the failure goes on after the log ends, at " + end.UTC().Format(time.RFC3339)
			}
		}
		kept = append(kept, a)
	}
	sc.report.Alerts = kept
}

// isLater reports whether every line of file is later than every line of other.
func (sc *scanner) isLater(file, other string) bool {
	if sc.spans == nil {
		sc.spans = map[uint64][2]time.Time{}
		for i, out := range sc.report.Outcomes {
			if name := sc.inputs[i].StreamLabels()[FileLabel]; name != "" {
				id, from, until := maphash.String(sc.seed, name), out.From, out.Until
				if x, ok := sc.spans[id]; ok {
					from, until = times.Min(from, x[0]), times.Max(until, x[1])
				}
				sc.spans[id] = [2]time.Time{from, until}
			}
		}
	}
	x, ok := sc.spans[maphash.String(sc.seed, file)]
	y, known := sc.spans[maphash.String(sc.seed, other)]
	return ok && known && !x[0].IsZero() && !y[1].IsZero() && !y[1].After(x[0])
}

// findUndecided counts the open failures that wait for lines of streams that no input can have.
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
				sc.report.Undecided = map[RuleSelector]int{}
			}
			sc.report.Undecided[RuleSelector{x.Rule.Alert, part.From.String()}]++
			break
		}
	}
}

// runParallel calls f(0) to f(n-1) on all cores, and returns the results in order.
func runParallel[R any](n int, f func(i int) R) []R {
	out := make([]R, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				out[i] = f(i)
			}
		})
	}
	wg.Wait()
	return out
}
