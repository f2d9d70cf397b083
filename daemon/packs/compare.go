package packs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"crowsnest/episodes"
	"crowsnest/rules"
	"crowsnest/sources/agents"
)

const (
	// shadowGrace is how long a difference must last until it counts: the two engines do
	// not conclude at the same moment.
	shadowGrace = 30 * time.Second
	// maxShadowAlerts bounds the alerts that are compared.
	maxShadowAlerts = 10_000
)

// comparison counts the alerts that only one of two versions fires. Its clock runs only
// while all lines are matched by both. Safe for concurrent use.
type comparison struct {
	grace time.Duration // until a difference counts

	mu      sync.Mutex
	running bool
	resumed time.Time     // when it began to run last
	elapsed time.Duration // for which it ran before
	// waiting are the nodes whose lines the new version does not see, and why, and
	// waitsSince is since when there are any.
	waiting    map[string]string
	waitsSince time.Time
	// from is the time of the first lines that both versions have seen without a gap.
	from   time.Time
	alerts map[episodes.Fingerprint]*compared
	// open are alerts that are not compared until they end, because the new version
	// may not have seen all of their lines. false: only the new version has it open.
	open       map[episodes.Fingerprint]bool
	uncompared int // how many alerts were not compared for that reason
	// missed and known are the rules of which alerts began that were not compared, and of
	// which some were.
	missed, known map[string]bool
	refused       string // why the version must not be promoted; "": it may be
}

// compared counts how often each version fired an alert.
type compared struct {
	rule           string
	now, next      int       // firings of the version in force and of the new one
	lastNow, lastN time.Time // start of the newest one
	since          time.Time // when the numbers became different
}

func newComparison(grace time.Duration) *comparison {
	return &comparison{grace: grace, alerts: map[episodes.Fingerprint]*compared{}, open: map[episodes.Fingerprint]bool{}, missed: map[string]bool{}, known: map[string]bool{}}
}

// begin lets the clock run. open are the alerts that are open in the version in force, and
// from is the time of the first lines that both versions see.
func (c *comparison) begin(open map[episodes.Fingerprint]bool, from, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running, c.resumed, c.open, c.from = true, now, open, from
	c.uncompared += len(open)
}

// Cover records which nodes match the new version. It reports whether the comparison can
// begin, or begin again.
func (c *comparison) Cover(by agents.Coverage, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(by.Waiting) > 0 && len(c.waiting) == 0 {
		c.waitsSince = now
	}
	c.waiting = by.Waiting
	if c.refused == "" {
		c.refused = by.Refused
	}
	if c.running && (len(by.Waiting) > 0 || by.Since.After(c.resumed)) {
		c.interrupt(now)
	}
	return !c.running && len(by.Waiting) == 0 && c.refused == ""
}

// interrupt stops the clock. Differences that have not lasted are forgotten: the lines of
// one version may be missing. The caller holds mu.
func (c *comparison) interrupt(now time.Time) {
	c.running, c.elapsed = false, c.elapsed+now.Sub(c.resumed)
	for _, a := range c.alerts {
		if now.Sub(a.since) < c.grace {
			a.forget()
		}
	}
}

// ClockSet records that the clock of all lines was set by d.
func (c *comparison) ClockSet(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.from = c.from.Add(d)
}

// forget forgets in what the versions differ.
func (a *compared) forget() {
	a.now = min(a.now, a.next)
	a.next = a.now
}

// count counts the alerts of the judged rules that a version fires.
func (c *comparison) count(changes []episodes.Episode, judged map[string]bool, next bool, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ep := range changes {
		if !judged[ep.Alert] || ep.Rule == nil || ep.Silent {
			continue
		}
		if !c.running {
			c.missed[ep.Alert] = c.missed[ep.Alert] || ep.State == episodes.StateFiring
			continue
		}
		if c.skip(&ep, next) || ep.State != episodes.StateFiring {
			continue
		}
		c.known[ep.Alert] = true
		a := c.alerts[ep.Fingerprint]
		if a == nil {
			if len(c.alerts) >= maxShadowAlerts {
				c.refused = fmt.Sprintf("more than %d alerts would have to be compared", maxShadowAlerts)
				return
			}
			a = &compared{rule: ep.Alert}
			c.alerts[ep.Fingerprint] = a
		}
		a.fired(ep.StartsAt, next, now)
	}
}

// skip reports whether an alert is not compared: it was open when the comparison began, or
// lines from before that time count towards it. The caller holds mu.
func (c *comparison) skip(ep *episodes.Episode, next bool) bool {
	inForce, open := c.open[ep.Fingerprint]
	switch {
	case open && ep.State == episodes.StateResolved && inForce == !next:
		delete(c.open, ep.Fingerprint)
	case open && ep.State == episodes.StateFiring && !next:
		c.open[ep.Fingerprint] = true
	case open:
	case ep.State == episodes.StateFiring && ep.StartsAt.Add(-reach(ep.Rule)).Before(c.from):
		c.open[ep.Fingerprint] = !next
		c.uncompared++
		c.missed[ep.Alert] = true
		if a := c.alerts[ep.Fingerprint]; a != nil {
			a.forget()
		}
	default:
		return false
	}
	return true
}

// reach is how far before the start of an alert the lines are that count towards it.
func reach(r *rules.Rule) time.Duration {
	window := r.Within
	if r.Unless != nil {
		window = max(window, r.Unless.Within)
	}
	return window + r.Silent
}

// fired counts an alert unless it merely continues.
func (a *compared) fired(starts time.Time, next bool, now time.Time) {
	n, last := &a.now, &a.lastNow
	if next {
		n, last = &a.next, &a.lastN
	}
	if *n > 0 && last.Equal(starts) {
		return
	}
	was := a.now - a.next
	*n, *last = *n+1, starts
	if was == 0 || a.since.IsZero() {
		a.since = now
	}
}

// difference is how many alerts only one of the versions has fired.
type difference struct{ onlyNow, onlyNext int }

// progress is a comparison at one time.
type progress struct {
	byRule     map[string]difference // the differences that have lasted, of every judged rule
	sum        int                   // of them
	fresh      int                   // differences that have not lasted long enough yet
	ran        time.Duration         // for which the clock has run
	running    bool
	waiting    map[string]string
	waitsSince time.Time
	uncompared int
	unknown    []string // rules of which alerts began, but none was compared; sorted
	refused    string
}

func (c *comparison) progress(judged map[string]bool, now time.Time) progress {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := progress{
		byRule: map[string]difference{}, ran: c.elapsed, running: c.running, waiting: c.waiting, waitsSince: c.waitsSince,
		uncompared: c.uncompared, refused: c.refused,
	}
	if c.running {
		p.ran += now.Sub(c.resumed)
	}
	for _, name := range slices.Sorted(maps.Keys(judged)) {
		p.byRule[name] = difference{}
		if c.missed[name] && !c.known[name] {
			p.unknown = append(p.unknown, name)
		}
	}
	for _, a := range c.alerts {
		differ := max(a.now-a.next, a.next-a.now)
		if now.Sub(a.since) < c.grace {
			p.fresh += differ
			continue
		}
		d := p.byRule[a.rule]
		d.onlyNow += max(0, a.now-a.next)
		d.onlyNext += max(0, a.next-a.now)
		p.byRule[a.rule] = d
		p.sum += differ
	}
	return p
}

// refuse records why the version is not promoted, and ends the comparison. The first
// reason stays.
func (c *comparison) refuse(why string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running {
		c.running, c.elapsed = false, c.elapsed+now.Sub(c.resumed)
	}
	if c.refused == "" {
		c.refused = why
	}
}

// beyond says in what the versions differ, for people.
func (p *progress) beyond(budget int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(p.byRule)) {
		if d := p.byRule[name]; d != (difference{}) {
			parts = append(parts, fmt.Sprintf("%s (%d only in the new version, %d only in the one in force)", name, d.onlyNext, d.onlyNow))
		}
	}
	return fmt.Sprintf("%d alerts differ, more than the budget of %d: %s", p.sum, budget, strings.Join(parts, ", "))
}

// maxNamed bounds the nodes that a text names.
const maxNamed = 5

// waits says which nodes the comparison waits for, "" if it waits for none.
func (p *progress) waits() string {
	var parts []string
	for i, node := range slices.Sorted(maps.Keys(p.waiting)) {
		switch {
		case i == maxNamed:
			return strings.Join(parts, "; ") + fmt.Sprintf("; and %d more", len(p.waiting)-maxNamed)
		case node == "":
			parts = append(parts, p.waiting[node])
		default:
			parts = append(parts, "node "+node+": "+p.waiting[node])
		}
	}
	return strings.Join(parts, "; ")
}
