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

// When a source counts as blind.
const (
	// stuckAfter is how many updates, a second apart, it may say that it is up
	// and neither read nor prove anything. Updates are counted and not seconds,
	// so that a machine that slept does not look stuck.
	stuckAfter = 60
)

// The alerts of the program about itself.
const (
	AlertHeartbeat      = "CrowsnestHeartbeat"
	alertBlind          = "CrowsnestBlind"
	alertNothingToWatch = "CrowsnestNothingToWatch"
	alertPackBroken     = "CrowsnestPackBroken"
	alertRuleGivenUp    = "CrowsnestRuleGivenUp"
)

// selfAlerts are the alerts of the program about itself. Safe for concurrent
// use.
type selfAlerts struct {
	start      time.Time
	blindAfter time.Duration
	labels     map[string]string // that tell this process apart from others like it
	mu         sync.Mutex
	open       map[episodes.Fingerprint]episodes.Episode
	away       map[string]time.Time // since when a source is not seen
	idle       map[string]time.Time // since when a source has nothing to watch
	moved      map[string]progress
	unanswered time.Time // since when an aggregator has not answered; zero: it does, or there is none
	lastSeen   time.Time // when something was seen
	lastAnswer time.Time // of an aggregator

	restored  map[episodes.Fingerprint]episodes.Episode // open in the process before and not confirmed yet
	savedSeen time.Time                                 // lastSeen as it was exported
	changed   bool                                      // since the last export
}

// progress is the newest sign of life of a source.
type progress struct {
	bytes  int64
	proved time.Time
	still  int // updates without one
}

func newSelfAlerts(start time.Time, blindAfter time.Duration) *selfAlerts {
	return &selfAlerts{
		start: start, blindAfter: blindAfter, moved: map[string]progress{},
		away: map[string]time.Time{}, idle: map[string]time.Time{},
		open: map[episodes.Fingerprint]episodes.Episode{}, restored: map[episodes.Fingerprint]episodes.Episode{},
	}
}

// update returns the alerts that opened, changed or ended. further are alerts that
// are open besides.
func (a *selfAlerts) update(now time.Time, status []sources.Status, broken []web.BrokenPack, givenUp []matcher.Quarantined, further ...episodes.Episode) []episodes.Episode {
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
			"description": cutText(b.Error, 1500),
			"remediation": "Run `crowsnest check rules` and `crowsnest test rules` on the pack, and put it right.",
		}))
	}
	for _, g := range givenUp {
		add(givenUpAlert(g, now))
	}
	return a.replace(now, want)
}

// awaySince returns since when a source is not seen, and whether that is long
// enough for an alert. Its begin is kept over restarts.
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
		// A source that was proved before is away since then; at start it gets
		// the same time to catch up.
		since = now
		if s.Watermark.After(a.start) {
			since = s.Watermark
		}
		a.away[s.Name], a.changed = since, true
	}
	return since, stuck || a.longSince(now, since)
}

// stuck tells whether a source says that it is up and does nothing.
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

// hung returns the sources that are stuck. It leaves out parts of a source: they
// are other processes.
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

// whyGivenUp says for people why a rule is not evaluated any more.
func whyGivenUp(reason matcher.Reason) string {
	if reason == matcher.ReasonCost {
		return "it took more of a CPU for a full minute than limits.rule_cpu allows"
	}
	return "its evaluation failed several times because of a defect of crowsnest"
}

func givenUpAlert(g matcher.Quarantined, now time.Time) episodes.Episode {
	fix := "Report it with the rule and the lines that it is about."
	if g.Reason == matcher.ReasonCost {
		fix = "Give the rule a text with `contains` that few lines have, or a narrower `from`; crowsnest_rule_seconds_total shows what rules cost."
	}
	return selfAlert(alertRuleGivenUp, "warning", map[string]string{"rule": g.Rule.Alert, "reason": string(g.Reason)}, now, map[string]string{
		"summary":     "Rule " + g.Rule.Alert + " is not evaluated any more",
		"description": "Rule " + g.Rule.Alert + " was given up: " + whyGivenUp(g.Reason) + ". What it had open stays open. All other rules go on; a changed version of the rule, or a restart, tries it again.",
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
		"summary":     "Failures in the logs of source " + s.Name + " are not seen",
		"description": cutText(fmt.Sprintf("The source %s is away since %s; %s.", s.Name, since.UTC().Format(time.RFC3339), what), 1500),
		"remediation": "Look at the page Sources and at the log of crowsnest. Nothing resolves by itself meanwhile.",
	})
}

// replace makes want the open alerts and returns what is news.
func (a *selfAlerts) replace(now time.Time, want map[episodes.Fingerprint]episodes.Episode) []episodes.Episode {
	var news []episodes.Episode
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
		news = append(news, e)
	}
	for fp, e := range a.open {
		if _, still := want[fp]; !still {
			delete(a.open, fp)
			news = append(news, overAt(e, now))
		}
	}
	for _, e := range a.overdue(now) {
		news = append(news, overAt(e, now))
	}
	a.changed = a.changed || len(news) > 0
	slices.SortFunc(news, func(x, y episodes.Episode) int { return cmp.Compare(x.Fingerprint, y.Fingerprint) })
	return news
}

// continuing returns e as the continuation of old.
func continuing(e, old episodes.Episode) episodes.Episode {
	e.StartsAt, e.FiredAt, e.LastSeen = old.StartsAt, old.FiredAt, old.LastSeen
	return e
}

// overAt returns e as it ended.
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

// cutText shortens text at a rune.
func cutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}
