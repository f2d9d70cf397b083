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

// maxWaiting is the maximum number of hits that wait until all logs have been read, so that the hits can be merged by
// time. If there are more, the older half is processed without waiting.
const maxWaiting = 100_000

// Follower runs the production engine over lines while they are written. Lines that exist at the start are history, and
// their times drive the clock, as in Scan. From the first call of Advance on, the clock of this machine is used. A
// Follower is not safe for concurrent use.
type Follower struct {
	sc      *scanner
	clock   func() time.Time
	ordered bool // whether hits arrive in the order of their times
	waiting []waitingHit
	live    bool
	fired   int
}

type waitingHit struct {
	file string
	hit  matcher.Hit
}

// FollowOptions configures a Follower.
type FollowOptions struct {
	// Scan are the options of the scan. OnWait, OnComplaints and End are not used.
	Scan ScanOptions
	// Clock returns the time of this machine.
	Clock func() time.Time
	// Ordered means that the history is in the order of its times, because there is only one log.
	Ordered bool
	// Reads reports whether lines of the selected streams can be read. If it is nil, all streams can be read.
	Reads func(rules.Selector) bool
	// OnAlert is called when an alert fires and when it resolves. It may be nil.
	OnAlert func(episodes.Episode)
}

// NewFollower returns a follower that has read no line.
func NewFollower(target Target, opt FollowOptions) *Follower {
	f := &Follower{sc: newScanner(target, opt.Scan, opt.Reads), clock: opt.Clock, ordered: opt.Ordered}
	f.sc.onAlert = func(x episodes.Episode) {
		if x.State == episodes.StateFiring {
			f.fired++
		}
		if opt.OnAlert != nil {
			x.OnHold, x.WaitsFor = false, nil // before the first call of Advance nothing is certain, but no source is down
			opt.OnAlert(x)
		}
	}
	return f
}

// Take accepts hits of a log in the order of its lines. The follower keeps the hits. read is the time of the newest
// line that was read, or zero if that line has no time.
func (f *Follower) Take(file string, hits []matcher.Hit, read time.Time) {
	if f.live || f.ordered || f.sc.opt.HitsOnly {
		for i := range hits {
			f.takeHit(file, hits[i:i+1])
		}
		if s := f.sc.session; !f.live && !f.sc.opt.HitsOnly && !s.now.IsZero() {
			f.moveClock(times.Min(read, f.clock()))
		}
		return
	}
	for _, h := range hits {
		f.waiting = append(f.waiting, waitingHit{file, h})
	}
	if len(f.waiting) > maxWaiting {
		f.mergeOldest(len(f.waiting) / 2)
	}
}

// mergeOldest processes the n oldest waiting hits in the order of their times.
func (f *Follower) mergeOldest(n int) {
	slices.SortStableFunc(f.waiting, func(a, b waitingHit) int {
		return cmp.Or(a.hit.Time.Compare(b.hit.Time), strings.Compare(a.file, b.file))
	})
	for i := range f.waiting[:n] {
		f.takeHit(f.waiting[i].file, []matcher.Hit{f.waiting[i].hit})
	}
	f.waiting = slices.Delete(f.waiting, 0, n)
}

func (f *Follower) takeHit(file string, hit []matcher.Hit) {
	if t := hit[0].Time; f.sc.first.IsZero() || t.Before(f.sc.first) {
		f.sc.first = t
	}
	if s := f.sc.session; f.live && !f.sc.opt.HitsOnly {
		// The clock must not be ahead of lines that other logs may still contain.
		s.now = times.Max(s.now, times.Min(hit[0].Time, f.clock()))
	}
	f.sc.takeHits(file, hit)
}

// Advance reports that all lines written up to t were read, and draws the conclusions that are due until then.
func (f *Follower) Advance(t time.Time) {
	if !f.live {
		f.mergeOldest(len(f.waiting))
		f.live, f.sc.live = true, true
	}
	f.moveClock(t)
}

func (f *Follower) moveClock(t time.Time) {
	s := f.sc.session
	if f.sc.opt.HitsOnly || !t.After(s.now) {
		return
	}
	if s.now.IsZero() { // there was no hit until now
		s.now = t
	}
	s.reachTime(t)
}

// Finish ends the reading. If runOn is set, the input has ended, so the clock runs on until every deadline has passed.
// Otherwise nothing more is concluded. The report lists no alerts.
func (f *Follower) Finish(runOn bool) Report {
	sc := f.sc
	f.mergeOldest(len(f.waiting))
	sc.opt.UntilEOF = sc.opt.UntilEOF || !runOn
	switch {
	case runOn:
		sc.finishClock()
	case !sc.session.now.IsZero():
		sc.report.End = sc.session.now
		sc.report.Coverage = Coverage{sc.first, sc.report.End}
		sc.findFindings()
	}
	return sc.report
}

// Alerts returns the number of alerts that fired so far.
func (f *Follower) Alerts() int { return f.fired }
