package replay

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/times"
	"crowsnest/matcher"
	"crowsnest/rules"
)

// maxWaiting bounds the hits that wait until all logs have been read, to be merged by
// time. Beyond it, the older half is taken before logs that were not read yet.
const maxWaiting = 100_000

// Follower runs the production engine over lines while they are written. What exists
// already is history: the times in it drive the clock, as in Scan. From the first call of
// Advance the clock is that of this machine. It is not safe for concurrent use.
type Follower struct {
	sc      *scanner
	clock   func() time.Time
	onAlert func(episodes.Episode)
	ordered bool // the hits arrive in the order of their times
	waiting []waitingHit
	live    bool
	fired   int
}

type waitingHit struct {
	file string
	hit  matcher.Hit
}

// FollowOptions configure a Follower.
type FollowOptions struct {
	// Scan holds the options of a scan; OnWait, OnComplaints and End are not used.
	Scan ScanOptions
	// Clock returns the time of this machine.
	Clock func() time.Time
	// Ordered means that history arrives in the order of its times: there is one log.
	Ordered bool
	// Reads reports whether lines of such streams can be read; nil means all can.
	Reads func(rules.Selector) bool
	// OnAlert is called when an alert fires and when it resolves; may be nil.
	OnAlert func(episodes.Episode)
}

// NewFollower returns a follower that has read nothing.
func NewFollower(target Target, opt FollowOptions) *Follower {
	f := &Follower{sc: newScanner(target, opt.Scan, opt.Reads), clock: opt.Clock, onAlert: opt.OnAlert, ordered: opt.Ordered}
	f.sc.session.notify = f.changed
	return f
}

// Take accepts hits of a log in the order of its lines. The hits own their memory. read is
// the time of the newest line that was read, zero if it has none.
func (f *Follower) Take(file string, hits []matcher.Hit, read time.Time) {
	if f.live || f.ordered || f.sc.opt.HitsOnly {
		for i := range hits {
			f.take(file, hits[i:i+1])
		}
		if s := f.sc.session; !f.live && !f.sc.opt.HitsOnly && !s.now.IsZero() {
			f.reach(times.Earlier(read, f.clock()))
		}
		return
	}
	for _, h := range hits {
		f.waiting = append(f.waiting, waitingHit{file, h})
	}
	if len(f.waiting) > maxWaiting {
		f.merge(len(f.waiting) / 2)
	}
}

// merge takes the oldest n of the waiting hits.
func (f *Follower) merge(n int) {
	slices.SortStableFunc(f.waiting, func(a, b waitingHit) int {
		return cmp.Or(a.hit.Time.Compare(b.hit.Time), strings.Compare(a.file, b.file))
	})
	for i := range f.waiting[:n] {
		f.take(f.waiting[i].file, []matcher.Hit{f.waiting[i].hit})
	}
	f.waiting = slices.Delete(f.waiting, 0, n)
}

// take takes one hit.
func (f *Follower) take(file string, hit []matcher.Hit) {
	if t := hit[0].Time; f.sc.first.IsZero() || t.Before(f.sc.first) {
		f.sc.first = t
	}
	if s := f.sc.session; f.live && !f.sc.opt.HitsOnly {
		// The clock must not run ahead of what other logs may still report.
		s.now = times.Later(s.now, times.Earlier(hit[0].Time, f.clock()))
	}
	f.sc.take(file, hit)
	f.sc.session.resolved = f.sc.session.resolved[:0]
}

// Advance states that all lines written up to t were read. It draws the conclusions due
// until then.
func (f *Follower) Advance(t time.Time) {
	if !f.live {
		f.merge(len(f.waiting))
		f.live, f.sc.live = true, true
	}
	f.reach(t)
}

func (f *Follower) reach(t time.Time) {
	s := f.sc.session
	if f.sc.opt.HitsOnly || !t.After(s.now) {
		return
	}
	if s.now.IsZero() { // no hit so far
		s.now = t
	}
	s.reach(t)
	s.resolved = s.resolved[:0]
}

// changed counts alerts and reports them.
func (f *Follower) changed(x episodes.Episode) {
	sc := f.sc
	if sc.ended && (x.StoppedLines() || x.Overflow && x.Rule.Silent > 0) && x.StartsAt.After(sc.report.End) {
		return // nobody knows which lines followed
	}
	_, open := sc.alerts[x.Fingerprint]
	switch {
	case x.State == episodes.StateFiring && !open:
		sc.alerts[x.Fingerprint] = notKept
		f.fired++
		sc.finder.fired(&x)
	case x.State == episodes.StateResolved && open:
		delete(sc.alerts, x.Fingerprint)
		if sc.ended && x.EndsAt.After(sc.report.End) {
			return // only silence after the end of the input ends it
		}
	default:
		return
	}
	if f.onAlert != nil {
		x.OnHold, x.WaitsFor = false, nil // nothing is proved before the first Advance, and that is no outage
		f.onAlert(x)
	}
}

// Finish ends the reading. With runOn the input has ended, and the clock runs on until every
// deadline is decided; else nothing more becomes certain. The report lists no alerts.
func (f *Follower) Finish(runOn bool) Report {
	sc := f.sc
	f.merge(len(f.waiting))
	sc.opt.UntilEOF = sc.opt.UntilEOF || !runOn
	switch {
	case runOn:
		sc.finish()
	case !sc.session.now.IsZero():
		sc.report.End = sc.session.now
		sc.report.Covered = Coverage{sc.first, sc.report.End}
		sc.findFindings()
	}
	return sc.report
}

// Alerts returns how many alerts fired so far.
func (f *Follower) Alerts() int { return f.fired }
