package sentinel

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/quota"
	"crowsnest/unknown/discover"
)

// Times in seconds that decide when a pattern is a failure and when the failure is over.
const (
	knownAfter    = 3600 // time for which a component must have been read before one of its patterns counts as new
	endAfter      = 1800 // time without lines of a pattern after which its failure counts as over
	day           = 24 * 3600
	renotifyAfter = 7 * day // time after which the same pattern may cause another notification
	newIntervals  = 3       // number of intervals that contain a line of a new pattern before it fires
)

// Namespaces outside the infrastructure share a part of the alerts in 24 hours, and each of these
// namespaces has a smaller part. The constants are the divisors of the total.
const (
	ordinaryShare  = 2
	namespaceShare = 4
)

// newNeeds is the repetition that a new pattern needs before it fires. By then, a program
// whose retries succeed has stopped retrying.
var newNeeds = chain{count: newIntervals, span: newIntervals - 1}

// Proof returns the time up to which all lines of streams with these labels have been read. It
// returns zero if a source of such streams is down. It must not call the Sentinel.
type Proof func(labels map[string]string) time.Time

type cause int

const (
	noCause cause = iota
	isNew
	persists
)

// finding is a pattern that counts as a failure.
type finding struct {
	component *component
	pattern   *pattern
	cause     cause
	run       *run // repetition for one object; set only if the pattern persists
}

func (f *finding) since() int64 {
	if f.run == nil {
		return f.pattern.First
	}
	return max(f.pattern.First, f.run.began())
}

// compare orders findings, the most important first. A pattern that ended the program comes
// first.
func (f *finding) compare(o *finding) int {
	a, b := f.pattern, o.pattern
	if a.Ends != b.Ends {
		if a.Ends {
			return -1
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(b.Level, a.Level), cmp.Compare(b.Words, a.Words), cmp.Compare(o.cause, f.cause),
		cmp.Compare(f.since(), o.since()), cmp.Compare(a.Key, b.Key),
	)
}

// find returns the failures of a component that have not ended, the worst first.
func (s *Sentinel) find(c *component, proved int64) (out []finding) {
	if c.patterns == nil || c.ignored {
		return nil
	}
	for _, item := range c.patterns.Items {
		p := item.Value
		if proved-p.Last >= endAfter {
			continue
		}
		f := finding{component: c, pattern: p}
		if f.run = p.stuck(); f.run != nil {
			f.cause = persists
		} else if c.isNew(p, proved) {
			f.cause = isNew
		} else {
			continue
		}
		if s.echoes(&f) {
			continue
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b finding) int { return a.compare(&b) })
	return out
}

// isNew reports whether a pattern is new in the component. A new pattern must have repeated,
// and the component must have been read for at least an hour before without a similar pattern.
func (c *component) isNew(p *pattern, proved int64) bool {
	if p.Passes || p.Waits || !p.urgent() || p.Alerted > 0 || p.First-c.since < knownAfter || proved-p.First < newNeeds.seconds() {
		return false
	}
	need := newNeeds
	if p.Level > discover.LevelError {
		need = chain{count: 2, span: 1}
	}
	if !p.All.newest().atLeast(need.count, need.span) {
		return false
	}
	for _, item := range c.patterns.Items {
		if o := item.Value; o != p && p.First-o.First >= knownAfter && discover.Similar(string(o.text()), string(p.text())) {
			return false
		}
	}
	return true
}

func (c chain) seconds() int64 { return int64(c.span) * slotSeconds }

// Evaluate returns the alerts that opened, changed or ended. A failure ends only when proof
// shows that its lines are absent.
func (s *Sentinel) Evaluate(now time.Time, proof Proof) []episodes.Episode {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := now.Unix()
	s.clock = at
	s.fired = slices.DeleteFunc(s.fired, func(t int64) bool { return at-t >= day })
	changed := s.displaced
	s.displaced = nil
	var waiting []finding // worst failure of each component without an alert
	s.st.Held = 0
	for c := range s.complainingComponents() {
		// A component without failures and alerts needs no proof.
		if found := s.find(c, at); len(found) == 0 && c.alert == nil {
			continue
		}
		proved := s.readUpTo(c, at, proof)
		found := s.find(c, proved)
		switch {
		case c.alert != nil:
			changed = append(changed, s.updateAlert(c, found, at, proved)...)
		case len(found) > 0 && s.notifiable(c, &found[0], at):
			waiting = append(waiting, found[0])
		}
	}
	slices.SortFunc(waiting, func(a, b finding) int {
		return cmp.Or(a.compare(&b), cmp.Compare(a.component.key, b.component.key))
	})
	for i := range waiting {
		if f := &waiting[i]; s.mayFire(f.component) {
			changed = append(changed, s.fire(f, at))
		} else {
			s.st.Held++
		}
	}
	slices.SortFunc(changed, func(a, b episodes.Episode) int {
		return cmp.Or(a.StartsAt.Compare(b.StartsAt), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
	s.changed = s.changed || len(changed) > 0
	return changed
}

func (s *Sentinel) complainingComponents() iter.Seq[*component] {
	return func(yield func(*component) bool) {
		for c := range s.allComponents() {
			if (c.patterns != nil && c.patterns.Used() > 0 || c.alert != nil) && !yield(c) {
				return
			}
		}
	}
}

// readUpTo returns the time up to which all lines of a component have been read.
func (s *Sentinel) readUpTo(c *component, now int64, proof Proof) int64 {
	t := proof(c.labels)
	if t.IsZero() {
		return 0
	}
	return min(t.Unix(), now)
}

// notifiable reports whether another alert of the component may fire. An alert for the same
// failure may fire once a week, and an alert for another new failure once a day.
func (s *Sentinel) notifiable(c *component, f *finding, now int64) bool {
	if s.alertedRecently(c, f.pattern, now) {
		return false
	}
	return f.cause == persists || c.last == 0 || now-c.last >= day
}

// alertedRecently reports whether an alert fired for this pattern or a similar one within a week.
func (s *Sentinel) alertedRecently(c *component, p *pattern, now int64) bool {
	for _, item := range c.patterns.Items {
		if o := item.Value; o.Alerted > 0 && now-o.Alerted < renotifyAfter && (o == p || discover.Similar(string(o.text()), string(p.text()))) {
			return true
		}
	}
	return false
}

// mayFire reports whether the limit of alerts in 24 hours allows one more. Namespaces outside
// the infrastructure share half of the limit, and each of them has at most a quarter.
func (s *Sentinel) mayFire(c *component) bool {
	if len(s.fired) >= s.cfg.PerDay {
		return false
	}
	if s.class(c.namespace()) == quota.Infrastructure {
		return true
	}
	others, own := 0, 0
	for o := range s.allComponents() {
		if o.last > 0 && len(s.fired) > 0 && o.last >= s.fired[0] && s.class(o.namespace()) == quota.Ordinary {
			others++
			if o.party == c.party {
				own++
			}
		}
	}
	return others < max(1, s.cfg.PerDay/ordinaryShare) && own < max(1, s.cfg.PerDay/namespaceShare)
}

func (s *Sentinel) allComponents() iter.Seq[*component] {
	return func(yield func(*component) bool) {
		for _, group := range s.components {
			for _, item := range group.Items {
				if !yield(item.Value) {
					return
				}
			}
		}
	}
}

// echoWithin is the longest time in seconds between the start of a rule's alert and the start of a
// failure if both count as the same failure. The start of a failure may be known only with a
// precision of five minutes.
const echoWithin = slotSeconds

// reportEvery is the interval in seconds at which Config.Alerts is called while there is a
// failure.
const reportEvery = 30

// maxReported is the largest number of alerts of rules that are compared with failures.
const maxReported = 1000

type ruleAlert struct {
	labels map[string]string
	at     int64
}

// Explain sets the alerts of rules. A failure that began together with an alert about the same
// component is not reported, because the rule already reports it.
func (s *Sentinel) Explain(alerts []episodes.Episode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.explain(alerts)
}

func (s *Sentinel) explain(alerts []episodes.Episode) {
	s.ruleAlerts = s.ruleAlerts[:0]
	for i := range alerts {
		if x := &alerts[i]; x.Alert != AlertName && len(s.ruleAlerts) < maxReported {
			s.ruleAlerts = append(s.ruleAlerts, ruleAlert{x.Labels, x.StartsAt.Unix()})
		}
	}
}

// echoes reports whether a failure began together with an alert of a rule about the same
// component.
func (s *Sentinel) echoes(f *finding) bool {
	if s.cfg.Alerts != nil && (s.reportedAt == 0 || s.clock < s.reportedAt || s.clock-s.reportedAt >= reportEvery) {
		s.reportedAt = s.clock
		s.explain(slices.DeleteFunc(s.cfg.Alerts(), func(x episodes.Episode) bool { return x.FiredAt.IsZero() }))
	}
	began := f.since()
	return slices.ContainsFunc(s.ruleAlerts, func(x ruleAlert) bool {
		return x.at-began <= echoWithin && began-x.at <= echoWithin && f.component.has(x.labels)
	})
}

// has reports whether an alert with these labels is about this component only.
func (c *component) has(labels map[string]string) bool {
	named := false
	for name, value := range c.labels {
		switch got := labels[name]; {
		case got == "":
		case got != value:
			return false
		case name != "namespace" && name != "cluster":
			named = true
		}
	}
	pod := labels["pod"]
	return named || pod != "" && labels["namespace"] == c.namespace() && slices.ContainsFunc(c.podsSeen, func(p podSeen) bool { return p.Name == pod })
}
