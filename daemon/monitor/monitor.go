// Package monitor raises crowsnest's alerts about itself: about sources that are not read, lost
// lines, invalid packs, and agents and aggregators that do not answer. The daemon passes the
// state of all parts to it once a second.
package monitor

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"crowsnest/agent/server"
	"crowsnest/daemon/component"
	"crowsnest/episodes"
	"crowsnest/internal/text"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sinks"
	"crowsnest/sources"
	"crowsnest/web"
)

// stuckAfter is the number of updates without progress after which a source that is up counts as stuck. There is one
// update a second. Updates are counted instead of seconds, so that a source does not look stuck after the machine was
// suspended.
const stuckAfter = 60

const maxText = 1500

const (
	alertHeartbeat   = "CrowsnestHeartbeat"
	alertBlind       = "CrowsnestBlind"
	alertPackBroken  = "CrowsnestPackBroken"
	alertQuarantined = "CrowsnestRuleGivenUp"
)

// State is the state of all parts of the daemon at one time.
type State struct {
	Sources         []sources.Status
	Readings        map[string]Reading // the key is the name of the source; sources without a reading are not checked
	Rules           *rules.Set         // active rules; nil means that streams are not compared with rules
	Agent           bool               // whether an aggregator draws the conclusions for this process
	Losses          component.Losses   // explanations of the reasons for lost lines
	Endpoints       []sinks.EndpointStatus
	Discoveries     []sinks.DiscoveryStatus
	Broken          []web.BrokenPack
	Quarantined     []matcher.Quarantined
	Evictions       []episodes.Eviction
	UnreadRules     []episodes.UnreadRule           // rules whose open episodes wait for lines that no source reads
	Trusted         *rules.Namespaces               // trusted namespaces; nil if they are not checked
	MismatchedRules map[string]sources.RuleMismatch // rules of which agents have another version
	Agents          map[string]server.Stats         // statistics of agents; the key is the name of their source
	Unsaved         SaveFailure                     // time since when, and reason why, the state cannot be saved
	Unanswered      time.Time                       // time of the first request that the aggregator did not answer; zero if it answers or there is none
	Upstream        []episodes.Episode              // alerts about the aggregator
	Unverified      []rules.UnverifiedRelease       // running releases of components for which rules were not verified, with these rules
	NoStandbySince  time.Time                       // start of the time in which this leader has had no standby; zero if it has a standby or needs none
}

// Alerts holds the open alerts. It is safe for concurrent use.
type Alerts struct {
	// Labels identify this process in every alert. They must be set before the first Update.
	Labels map[string]string

	start        time.Time
	blindAfter   time.Duration
	mu           sync.Mutex
	open         map[episodes.Fingerprint]episodes.Episode
	outageStarts map[string]time.Time // start of the current outage of each source
	idle         map[string]time.Time // start of the time in which each source has had nothing to read
	idleStates   map[string]idleState // reasons of the idle sources
	unsure       map[string]bool      // sources whose logs this process has not opened yet
	idleAll      string               // reason why all sources are idle; "" if at least one source is not idle
	lined        map[string]bool      // sources that have had a line, in this process or in an earlier one
	rules        map[string]ruleCheck // result of the last comparison of each source's streams with the rules
	covers       string               // description of which sources are read, as of the last Update
	settled      bool                 // whether sources had enough time since the start to be opened
	moved        map[string]progress
	lastSeen     time.Time // time at which any source was last read
	lastAnswer   time.Time // time of the aggregator's last response
	skewed       skews
	dropped      drops
	misplaced    misplacedPods
	unserved     unservedRules

	restored  map[episodes.Fingerprint]episodes.Episode // alerts that were open in the previous process and that this process has not confirmed yet
	savedSeen time.Time                                 // lastSeen at the last Export
	changed   bool                                      // whether anything changed since the last Export
}

type progress struct {
	bytes       int64
	watermark   time.Time
	idleUpdates int // number of consecutive updates without progress
}

// New returns the alerts of a process. An alert fires for each source that has not been read for blindAfter.
func New(start time.Time, blindAfter time.Duration) *Alerts {
	return &Alerts{
		start: start, blindAfter: blindAfter, moved: map[string]progress{}, skewed: skews{}, dropped: drops{},
		outageStarts: map[string]time.Time{}, idle: map[string]time.Time{}, lined: map[string]bool{}, rules: map[string]ruleCheck{},
		open: map[episodes.Fingerprint]episodes.Episode{}, restored: map[episodes.Fingerprint]episodes.Episode{},
	}
}

// Begin sets the time from which this process reads logs. It must be called before Import and the first Update.
func (a *Alerts) Begin(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.start = now
}

// Update returns the alerts that opened, changed or ended.
func (a *Alerts) Update(now time.Time, st State) []episodes.Episode {
	a.mu.Lock()
	defer a.mu.Unlock()
	want := map[episodes.Fingerprint]episodes.Episode{}
	add := func(all ...episodes.Episode) {
		for _, e := range all {
			e = addLabels(e, a.Labels)
			want[e.Fingerprint] = e
		}
	}
	add(agentAlerts(now, st)...)
	if st.Trusted != nil {
		add(a.misplaced.alerts(now, st.Trusted, st.Sources)...)
	}
	add(st.Upstream...)
	add(unsavedAlert(now, st.Unsaved)...)
	add(lonelyAlert(now, st.NoStandbySince)...)
	add(evictionAlert(now, st.Evictions)...)
	add(a.unserved.alert(now, a.blindAfter, st.UnreadRules)...)
	known := map[string]bool{}
	for _, e := range st.Endpoints {
		known[e.Endpoint] = true
		add(a.skewed.alert(now, e)...)
		add(a.dropped.alert(now, e)...)
	}
	maps.DeleteFunc(a.skewed, func(endpoint string, _ time.Time) bool { return !known[endpoint] })
	maps.DeleteFunc(a.dropped, func(endpoint string, _ dropPeriod) bool { return !known[endpoint] })
	for _, d := range st.Discoveries {
		add(discoveryAlert(now, d)...)
	}
	all := withMembers(st.Sources, now)
	a.explainIdle(now, st, all)
	a.idleAll = whyAllIdle(all)
	add(a.blindAlerts(now, all)...)
	add(a.heartbeat(now, all, st.Unanswered)...)
	add(a.idleAlerts(now, all, st.Agent)...)
	for _, s := range all {
		add(lossAlerts(now, s, st.Losses)...)
		add(unreadAlert(now, a.blindAfter, s)...)
	}
	add(brokenAlerts(now, st.Broken)...)
	for _, u := range st.Unverified {
		add(unverifiedAlert(now, u))
	}
	for _, g := range st.Quarantined {
		add(quarantineAlert(g, now))
	}
	return a.replaceOpen(now, want)
}

// awaySince returns the start of the current outage of a source, and whether the outage has
// lasted long enough for an alert. The start is kept across restarts.
func (a *Alerts) awaySince(now time.Time, s sources.Status) (time.Time, bool) {
	stuck := a.isStuck(s)
	since, known := a.outageStarts[s.Name]
	if !stuck && s.Up && !s.Watermark.Before(now.Add(-a.blindAfter)) {
		if known {
			delete(a.outageStarts, s.Name)
			a.changed = true
		}
		return time.Time{}, false
	}
	if !known {
		// The outage began at the watermark, the time up to which all lines are read. A source without progress in this
		// process gets blindAfter from now to catch up.
		since = now
		if s.Watermark.After(a.start) {
			since = s.Watermark
		}
		a.outageStarts[s.Name], a.changed = since, true
	}
	return since, stuck || a.longSince(now, since)
}

func (a *Alerts) isStuck(s sources.Status) bool {
	p := a.moved[s.Name]
	if !s.Up || s.Bytes != p.bytes || !s.Watermark.Equal(p.watermark) {
		p = progress{bytes: s.Bytes, watermark: s.Watermark}
	} else {
		p.idleUpdates++
	}
	a.moved[s.Name] = p
	return p.idleUpdates >= stuckAfter
}

// HungSources returns the sources that are stuck. It does not return members, because they are other processes.
func (a *Alerts) HungSources() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(a.moved)) {
		if a.moved[name].idleUpdates >= stuckAfter && !isMember(name) {
			out = append(out, name)
		}
	}
	return out
}

// replaceOpen replaces the open alerts by want, and returns the alerts that opened, changed or ended.
func (a *Alerts) replaceOpen(now time.Time, want map[episodes.Fingerprint]episodes.Episode) []episodes.Episode {
	var changed []episodes.Episode
	for fp, e := range want {
		old, known := a.open[fp]
		if known {
			if e = continueEpisode(e, old); maps.Equal(old.Annotations, e.Annotations) {
				continue
			}
		} else if old, was := a.restored[fp]; was {
			e = continueEpisode(e, old)
			delete(a.restored, fp)
		}
		a.open[fp] = e
		changed = append(changed, e)
	}
	for fp, e := range a.open {
		if _, still := want[fp]; !still {
			delete(a.open, fp)
			changed = append(changed, resolve(e, now))
		}
	}
	for _, e := range a.dropUnconfirmed(now) {
		changed = append(changed, resolve(e, now))
	}
	a.changed = a.changed || len(changed) > 0
	slices.SortFunc(changed, func(x, y episodes.Episode) int { return cmp.Compare(x.Fingerprint, y.Fingerprint) })
	return changed
}

func continueEpisode(e, old episodes.Episode) episodes.Episode {
	e.StartsAt, e.FiredAt, e.LastSeen = old.StartsAt, old.FiredAt, old.LastSeen
	return e
}

func resolve(e episodes.Episode, now time.Time) episodes.Episode {
	e.State, e.Reason, e.EndsAt, e.ConcludedAt = episodes.StateResolved, episodes.ReasonClear, now, now
	return e
}

// All returns the open alerts, sorted by their start.
func (a *Alerts) All() []episodes.Episode {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.SortedFunc(maps.Values(a.open), func(x, y episodes.Episode) int { return x.StartsAt.Compare(y.StartsAt) })
}

// Counts returns the number of open alerts by name. It includes the names without an open alert.
func (a *Alerts) Counts() map[string]int64 {
	out := map[string]int64{}
	for name := range alertTexts() {
		out[name] = 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.open {
		if _, known := out[e.Alert]; known { // agents may report alerts with unknown names
			out[e.Alert]++
		}
	}
	return out
}

// alertText contains the texts of an alert. A {name} in a text is replaced by a label or another value.
type alertText struct {
	Severity, Summary, Description, Fix string
	Reported, ReportedFix               string // meaning and remedy for an alert that agents report
}

//go:embed alerts.json
var alertsFile []byte

// alertTexts returns the texts of all alerts about crowsnest itself, by name.
var alertTexts = sync.OnceValue(func() (out map[string]alertText) {
	if err := json.Unmarshal(alertsFile, &out); err != nil {
		panic(err) // cannot happen, because tests parse the file
	}
	return out
})

// newAlert returns an alert with its texts. values are alternately a {name} and its replacement. A severity in labels
// overrides the usual severity of the alert.
func newAlert(name string, labels map[string]string, start time.Time, values ...string) episodes.Episode {
	for label, value := range labels {
		values = append(values, "{"+label+"}", value)
	}
	t, fill := alertTexts()[name], strings.NewReplacer(values...).Replace
	annotations := map[string]string{"summary": fill(t.Summary), "description": text.Shorten(fill(t.Description), maxText)}
	if t.Fix != "" {
		annotations["remediation"] = fill(t.Fix)
	}
	return newAnnotated(name, t.Severity, labels, start, annotations)
}

func newAnnotated(name, severity string, labels map[string]string, start time.Time, annotations map[string]string) episodes.Episode {
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

func addLabels(e episodes.Episode, labels map[string]string) episodes.Episode {
	if len(labels) == 0 {
		return e
	}
	all := maps.Clone(e.Labels)
	maps.Copy(all, labels)
	out := newAnnotated(e.Alert, all["severity"], all, e.StartsAt, e.Annotations)
	out.Count, out.LastSeen, out.Heartbeat = e.Count, e.LastSeen, e.Heartbeat
	return out
}

// joinFirst joins the first n names and appends the number of the remaining names.
func joinFirst(names []string, n int) string {
	if more := len(names) - n; more > 0 {
		names = append(slices.Clone(names[:n]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
