package daemon

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"time"

	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/sources"
	"crowsnest/web"
)

// stuckAfter is the number of updates, one a second, after which a source that is up
// but makes no progress counts as stuck. It counts updates, not seconds, so that a
// machine that was suspended does not look stuck.
const stuckAfter = 60

// Alerts of the daemon about itself.
const (
	AlertHeartbeat      = "CrowsnestHeartbeat"
	alertBlind          = "CrowsnestBlind"
	alertNothingToWatch = "CrowsnestNothingToWatch"
	alertPackBroken     = "CrowsnestPackBroken"
	alertQuarantined    = "CrowsnestRuleGivenUp"
)

// selfAlerts holds the alerts of the daemon about itself. It is safe for concurrent
// use.
type selfAlerts struct {
	start      time.Time
	blindAfter time.Duration
	labels     map[string]string // added to every alert, to identify this process
	mu         sync.Mutex
	open       map[episodes.Fingerprint]episodes.Episode
	away       map[string]time.Time // start of the current outage, by source
	idle       map[string]time.Time // since when a source has had nothing to watch
	moved      map[string]progress
	unanswered time.Time // since when the aggregator has not answered; zero: it answers, or there is none
	lastSeen   time.Time // when a source was last read
	lastAnswer time.Time // of the aggregator

	restored  map[episodes.Fingerprint]episodes.Episode // open in the previous process, not confirmed yet
	savedSeen time.Time                                 // lastSeen at the last export
	changed   bool                                      // since the last export
}

// progress is the last observed progress of a source.
type progress struct {
	bytes  int64
	proved time.Time
	still  int // updates without progress
}

func newSelfAlerts(start time.Time, blindAfter time.Duration) *selfAlerts {
	return &selfAlerts{
		start: start, blindAfter: blindAfter, moved: map[string]progress{},
		away: map[string]time.Time{}, idle: map[string]time.Time{},
		open: map[episodes.Fingerprint]episodes.Episode{}, restored: map[episodes.Fingerprint]episodes.Episode{},
	}
}

// update returns the alerts that opened, changed or ended. further are additional
// open alerts.
func (a *selfAlerts) update(now time.Time, status []sources.Status, broken []web.BrokenPack, quarantined []matcher.Quarantined, further ...episodes.Episode) []episodes.Episode {
	a.mu.Lock()
	defer a.mu.Unlock()
	want := map[episodes.Fingerprint]episodes.Episode{}
	add := func(e episodes.Episode) {
		e = labelled(e, a.labels)
		want[e.Fingerprint] = e
	}
	for _, e := range further {
		add(e)
	}
	for _, e := range a.blind(now, status) {
		add(e)
	}
	if e, ok := a.heartbeat(now, status); ok {
		add(e)
	}
	for _, s := range status {
		if e, ok := a.idleAlert(now, s); ok {
			add(e)
		}
		for _, e := range lossAlerts(now, s) {
			add(e)
		}
		if e, ok := unreadAlert(now, s); ok {
			add(e)
		}
	}
	for _, b := range broken {
		add(selfAlert(alertPackBroken, "warning", map[string]string{"pack": b.Pack}, now, map[string]string{
			"summary":     "The newest version of rule pack " + b.Pack + " was refused; its last good version stays in force",
			"description": truncate(b.Error, 1500),
			"remediation": "Run `crowsnest check rules` and `crowsnest test rules` on the pack and correct it.",
		}))
	}
	for _, g := range quarantined {
		add(quarantineAlert(g, now))
	}
	return a.replace(now, want)
}

// awaySince returns the start of the current outage of a source, and whether it has
// lasted long enough for an alert. The start is kept across restarts.
func (a *selfAlerts) awaySince(now time.Time, s sources.Status) (time.Time, bool) {
	stuck := a.stuck(s)
	since, known := a.away[s.Name]
	if !stuck && s.Up && !s.Watermark.Before(now.Add(-a.blindAfter)) {
		if known {
			delete(a.away, s.Name)
			a.changed = true
		}
		return time.Time{}, false
	}
	if !known {
		// The outage starts at the watermark. A source that has made no progress since
		// the start of the process gets the same time to catch up.
		since = now
		if s.Watermark.After(a.start) {
			since = s.Watermark
		}
		a.away[s.Name], a.changed = since, true
	}
	return since, stuck || a.longSince(now, since)
}

// stuck reports whether a source is up but makes no progress.
func (a *selfAlerts) stuck(s sources.Status) bool {
	p := a.moved[s.Name]
	if !s.Up || s.Bytes != p.bytes || !s.Watermark.Equal(p.proved) {
		p = progress{bytes: s.Bytes, proved: s.Watermark}
	} else {
		p.still++
	}
	a.moved[s.Name] = p
	return p.still >= stuckAfter
}

// hung returns the sources that are stuck. It omits members of a source: they are
// other processes.
func (a *selfAlerts) hung() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(a.moved)) {
		if a.moved[name].still >= stuckAfter && !isPart(name) {
			out = append(out, name)
		}
	}
	return out
}

// quarantineReason says for people why a rule is quarantined.
func quarantineReason(reason matcher.Reason) string {
	if reason == matcher.ReasonCost {
		return "it took more of a CPU for a full minute than limits.rule_cpu allows"
	}
	return "its evaluation failed several times because of a bug in crowsnest"
}

func quarantineAlert(g matcher.Quarantined, now time.Time) episodes.Episode {
	fix := "Report the bug with the rule and the log lines."
	if g.Reason == matcher.ReasonCost {
		fix = "Add a `contains` text that occurs in few lines, or narrow `from`; crowsnest_rule_seconds_total shows the cost of each rule."
	}
	return selfAlert(alertQuarantined, "warning", map[string]string{"rule": g.Rule.Alert, "reason": string(g.Reason)}, now, map[string]string{
		"summary":     "Rule " + g.Rule.Alert + " is quarantined and no longer evaluated",
		"description": "Rule " + g.Rule.Alert + " was quarantined: " + quarantineReason(g.Reason) + ". Its open alerts stay open. All other rules continue. A changed version of the rule or a restart tries it again.",
		"remediation": fix,
	})
}

func blindAlert(s sources.Status, since time.Time) episodes.Episode {
	what := "it makes no progress"
	if !s.Up {
		what = "it cannot be read"
	}
	if s.Error != "" {
		what += ": " + s.Error
	}
	return selfAlert(alertBlind, "critical", map[string]string{"source": s.Name}, since, map[string]string{
		"summary":     "Source " + s.Name + " is not read: failures in its logs are not detected",
		"description": truncate(fmt.Sprintf("Source %s has been down since %s: %s. Alerts that depend on it do not resolve meanwhile.", s.Name, since.UTC().Format(time.RFC3339), what), 1500),
		"remediation": "Check the Sources page and the log of crowsnest.",
	})
}

// replace makes want the open alerts and returns those that changed.
func (a *selfAlerts) replace(now time.Time, want map[episodes.Fingerprint]episodes.Episode) []episodes.Episode {
	var changed []episodes.Episode
	for fp, e := range want {
		old, known := a.open[fp]
		if known {
			if e = continuing(e, old); maps.Equal(old.Annotations, e.Annotations) {
				continue
			}
		} else if old, was := a.restored[fp]; was {
			e = continuing(e, old)
			delete(a.restored, fp)
		}
		a.open[fp] = e
		changed = append(changed, e)
	}
	for fp, e := range a.open {
		if _, still := want[fp]; !still {
			delete(a.open, fp)
			changed = append(changed, overAt(e, now))
		}
	}
	for _, e := range a.overdue(now) {
		changed = append(changed, overAt(e, now))
	}
	a.changed = a.changed || len(changed) > 0
	slices.SortFunc(changed, func(x, y episodes.Episode) int { return cmp.Compare(x.Fingerprint, y.Fingerprint) })
	return changed
}

// continuing returns e as the continuation of old.
func continuing(e, old episodes.Episode) episodes.Episode {
	e.StartsAt, e.FiredAt, e.LastSeen = old.StartsAt, old.FiredAt, old.LastSeen
	return e
}

// overAt returns e as resolved at now.
func overAt(e episodes.Episode, now time.Time) episodes.Episode {
	e.State, e.Reason, e.EndsAt, e.Concluded = episodes.StateResolved, episodes.ReasonClear, now, now
	return e
}

// all returns the open alerts.
func (a *selfAlerts) all() []episodes.Episode {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.SortedFunc(maps.Values(a.open), func(x, y episodes.Episode) int { return x.StartsAt.Compare(y.StartsAt) })
}

func selfAlert(name, severity string, labels map[string]string, start time.Time, annotations map[string]string) episodes.Episode {
	all := map[string]string{"alertname": name, "severity": severity}
	maps.Copy(all, labels)
	h := fnv.New64a()
	for _, k := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(h, "%s\xff%s\xff", k, all[k])
	}
	return episodes.Episode{
		Fingerprint: episodes.Fingerprint(h.Sum64()), Alert: name, State: episodes.StateFiring,
		Labels: all, Annotations: annotations, StartsAt: start.UTC(), FiredAt: start.UTC(), LastSeen: start.UTC(), Count: 1,
	}
}

// truncate shortens s to at most n bytes plus an ellipsis, without splitting a rune.
func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}
