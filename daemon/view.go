package daemon

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/version"

	"crowsnest/daemon/casefile"
	"crowsnest/daemon/inforce"
	"crowsnest/daemon/monitor"
	"crowsnest/episodes"
	"crowsnest/episodes/history"
	"crowsnest/matcher"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/rules/components"
	"crowsnest/sinks"
	"crowsnest/sinks/alertmanager"
	"crowsnest/sources"
	"crowsnest/web"
)

func (d *Daemon) view() web.View {
	return web.View{
		Episodes:   d.episodesView,
		Stats:      d.stats,
		Rules:      d.rulesView,
		Sources:    d.sourcesView,
		Endpoints:  d.endpointsView,
		Deliveries: d.deliveriesView,
		Timeline:   func(fp episodes.Fingerprint) (episodes.Timeline, bool) { return d.engine.Timeline(fp, d.now()) },
		Status:     d.statusView,
		Unknown:    d.unknownView, UnknownRule: d.unknownRule,
		History: d.historyView, PastEpisodes: d.pastView,
		Links:       func() web.Links { return d.cfg.Load().Links() },
		Suppression: d.suppressions.reason, SuppressionProblem: d.suppressions.problem,
		External: func() []map[string]string { return d.cfg.Load().ExternalLabels() },
	}
}

func (d *Daemon) episodesView() []episodes.Episode {
	out := append(d.engine.Episodes(d.now()), d.self.All()...)
	if d.sentinel != nil {
		out = append(out, d.sentinel.OpenAlerts()...)
	}
	return out
}

func (d *Daemon) historyView() []*history.Entry {
	if d.endedHistory == nil {
		return nil
	}
	return d.endedHistory.All(d.now())
}

func (d *Daemon) pastView(fp episodes.Fingerprint) []*history.Entry {
	if d.endedHistory == nil {
		return nil
	}
	return d.endedHistory.EntriesOf(uint64(fp), d.now())
}

func (d *Daemon) webOptions(reg *prometheus.Registry) web.Options {
	opt := web.Options{
		ConfigFile: d.opt.Web.ConfigFile, Pprof: d.opt.Web.Pprof, Registry: reg, Now: d.now, Log: d.component("web"),
		MaxConns: webConns(), Hosts: d.opt.Web.Hosts, Case: d.caseFile, RunTests: runTests, Silence: d.createSilence, MCP: d.opt.MCP,
	}
	if d.opt.Scan != nil {
		opt.Scan = func(log string, labels matcher.Labels, set *rules.Set) (web.Scanned, error) {
			hide, err := newRedactor(d.cfg.Load().Redaction)
			if err != nil {
				return web.Scanned{}, err
			}
			return d.opt.Scan(log, labels, set, hide, d.now())
		}
	}
	if d.pair != nil {
		opt.LeaderAddress = d.leaderPages
	}
	if d.opt.Web.Lifecycle {
		opt.Reload = d.Reload
	}
	return opt
}

func (d *Daemon) rulesView() web.Rules {
	rs := d.pipe.rules.Load()
	out := web.Rules{
		Set: rs.Set, Broken: d.brokenPacks(), LastLines: rs.LastSeen(),
		Cost: map[string]time.Duration{}, Evaluations: map[string]int64{}, Quarantined: map[string]string{}, OutOfScope: inforce.OutOfScope(rs.Set, d.cfg.Load().Rules.Scope),
	}
	for _, c := range rs.Program.Costs() {
		out.Cost[c.Rule.Alert], out.Evaluations[c.Rule.Alert] = c.Spent, c.Evaluations
	}
	out.Running = d.runningVersions()
	out.WaitReasons = map[string]string{}
	for rule, b := range d.agentsBehind() {
		out.WaitReasons[rule] = monitor.BehindText(b)
	}
	for _, g := range rs.Program.Quarantined() {
		out.Quarantined[g.Rule.Alert] = monitor.QuarantineReason(g.Reason)
	}
	return out
}

func (d *Daemon) sourcesView() []web.Source {
	status, away := d.sourceStatus(), d.self.Outages()
	out := make([]web.Source, len(status))
	for i, s := range status {
		out[i] = web.Source{
			Name: s.Name, Up: s.Up, Opened: s.Opened, Error: s.Error, Watermark: s.Watermark, Lag: s.Lag,
			Lines: s.Lines, Bytes: s.Bytes, Evaluated: s.Evaluated, Dropped: s.Dropped,
			Truncated: s.Truncated, Unparsed: s.Unparsed, Lost: s.LostBytes, Errors: s.Errors, Members: membersView(s),
			Idle: s.Idle, IdleReason: idleReason(s), Absent: s.Absent, LeftOut: s.LeftOut, AwaySince: away[s.Name], Losses: s.LossCounts(),
		}
		out[i].Filtered = d.kinds[i].Filtered
		for _, u := range s.Unread {
			out[i].Unread = append(out[i].Unread, web.Unread{Path: u.Path, Reason: u.Reason, Since: u.Since})
		}
		for _, st := range s.Streams {
			out[i].Streams = append(out[i].Streams, web.Stream{
				Labels: st.Labels, Path: st.Path, Offset: st.Offset, Size: st.Size,
				Lines: st.Lines, LastRead: st.LastRead, Rules: st.Rules,
			})
		}
	}
	return out
}

// idleReason returns the kind of reason why a source has nothing to read, or "".
func idleReason(s sources.Status) string {
	if s.Idle == "" {
		return ""
	}
	return string(cmp.Or(s.IdleReason, sources.IdleNotInstalled))
}

func (d *Daemon) endpointsView() []web.Endpoint {
	var out []web.Endpoint
	for _, e := range d.endpointStatus() {
		out = append(out, web.Endpoint{
			Sink: e.Sink, Endpoint: e.Endpoint, Up: e.Up, Error: e.Error, Sent: e.Sent, Failed: e.Failed, Pending: e.Pending, ClockSkew: e.ClockSkew,
		})
	}
	return out
}

// answers is implemented by sinks that remember the receiver's answers to each alert.
type answers interface {
	Answers(fp episodes.Fingerprint) []sinks.Delivery
	Notified(fp episodes.Fingerprint, fired time.Time) int
}

// countNotifications returns the number of accepted notifications of the episode that fired at this time.
func (d *Daemon) countNotifications(fp episodes.Fingerprint, fired time.Time) int {
	n := 0
	for _, s := range d.sinks {
		if log, ok := s.(answers); ok {
			n += log.Notified(fp, fired)
		}
	}
	return n
}

func (d *Daemon) deliveriesView(fp episodes.Fingerprint) []web.Delivery {
	var out []web.Delivery
	for _, s := range d.sinks {
		if log, ok := s.(answers); ok {
			for _, x := range log.Answers(fp) {
				out = append(out, web.Delivery{
					Sink: s.Name(), Endpoint: x.Endpoint, Time: x.Time, Last: x.LastAt, Times: x.Times, Resolved: x.Resolved, Code: x.Code, Error: x.Error,
				})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b web.Delivery) int { return a.Time.Compare(b.Time) })
	return out
}

func (d *Daemon) statusView() web.Status {
	saved, errs := d.saver.status()
	st := web.Status{
		Start: d.start, Config: d.cfg.Load().FormatEffective(), Flags: d.opt.Flags, Reload: d.outcome.Load().status,
		SavedAt: saved, SaveErrors: errs, Storage: d.saver.dir, ExternalURL: d.cfg.Load().Global.ExternalURL,
	}
	for _, x := range d.discoveryStatus() {
		st.Discoveries = append(st.Discoveries, web.Discovery(x))
	}
	st.Pair, st.Coverage = d.pair.view(), d.self.Coverage()
	d.setReadiness(&st)
	return st
}

func membersView(s sources.Status) []web.Member {
	out := make([]web.Member, 0, len(s.Members))
	for _, name := range slices.Sorted(maps.Keys(s.Members)) {
		p := s.Members[name]
		out = append(out, web.Member{Name: name, Up: p.Up, Error: p.Error, Since: p.Since, Watermark: p.Watermark, Skew: p.Skew, Reports: p.Reports, Idle: p.Idle})
	}
	return out
}

func (d *Daemon) caseFile(fingerprint string, get func(path string) ([]byte, error)) ([]byte, error) {
	made, err := casefile.FromAPI(casefile.Daemon{
		Address: d.cfg.Load().Global.ExternalURL, Fingerprint: fingerprint, Get: get, Now: d.now(), Version: version.Version,
	})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := made.HTML(&b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (d *Daemon) alertmanagers() (out []*alertmanager.Sink) {
	for _, sink := range d.sinks {
		if am, ok := sink.(*alertmanager.Sink); ok {
			out = append(out, am)
		}
	}
	return out
}

// createSilence creates a silence in each cluster of Alertmanagers.
func (d *Daemon) createSilence(ctx context.Context, s web.Silence) []web.Silenced {
	var out []web.Silenced
	for _, am := range d.alertmanagers() {
		endpoint, id, err := am.Silence(ctx, alertmanager.Silence(s))
		made := web.Silenced{Receiver: cmp.Or(endpoint, am.Name()), ID: id}
		if err != nil {
			made.Error = err.Error()
		}
		out = append(out, made)
	}
	d.suppressions.readNow()
	return out
}

func runTests(all []*rules.Rule) ([]web.TestOutcome, error) {
	report, err := replay.RunTests(all, replay.TestOptions{})
	out := make([]web.TestOutcome, 0, len(report.Results))
	for _, r := range report.Results {
		out = append(out, web.TestOutcome{Rule: r.Rule, Test: r.Test, Failures: r.Failures})
	}
	return out, err
}

// setReadiness sets the state that the probes report. The process is ready when its state is restored, it has rules,
// and its own sources are open. Unreachable peers, such as the Kubernetes API, Loki or an aggregator, are listed as
// absent. They change neither readiness nor liveness, because a restart would not help, and because agents cannot
// connect to a pod that is not ready. A standby is ready when it has the state of the leader.
func (d *Daemon) setReadiness(st *web.Status) {
	if d.pair.standsBy() {
		if why := d.pair.whyNotReady(); why != "" {
			st.Missing = append(st.Missing, "this standby cannot take over: "+why)
		}
		return
	}
	if !d.restored.Load() {
		st.Missing = append(st.Missing, "the saved state is not restored yet (another instance may hold it)")
	}
	if len(d.pipe.rules.Load().Set.Rules) == 0 {
		st.Missing = append(st.Missing, "no rules are loaded")
	}
	for i, s := range d.sourceStatus() {
		remote := d.sources[i].Info().Remote
		switch {
		case !s.Opened && !remote:
			st.Missing = append(st.Missing, notOpened(s))
		case !s.Opened:
			st.Absent = append(st.Absent, notOpened(s))
		case !s.Up:
			st.Absent = append(st.Absent, fmt.Sprintf("source %s is down: %s", s.Name, s.Error))
		case s.Idle != "":
			st.Absent = append(st.Absent, fmt.Sprintf("source %s is idle: %s", s.Name, s.Idle))
		}
	}
	if d.configMaps != nil {
		if why, _ := d.configMaps.Failure(); why != "" {
			st.Absent = append(st.Absent, configMapsKey+": "+why)
		}
	}
	if why := d.pipe.concluder.aggregatorState().absent; why != "" {
		st.Absent = append(st.Absent, why)
	}
	st.Unhealthy = d.whyUnhealthy()
}

func notOpened(s sources.Status) string {
	if s.Error != "" {
		return fmt.Sprintf("source %s cannot be opened: %s", s.Name, s.Error)
	}
	return fmt.Sprintf("source %s has not been opened yet", s.Name)
}

// whyUnhealthy returns the name of the part that has stopped permanently and that a restart may repair. It returns ""
// if there is none.
func (d *Daemon) whyUnhealthy() string {
	for _, name := range d.self.HungSources() {
		if isOwnSource(d.sources, name) && !d.pipe.concluder.aggregatorState().blocked { // a restart would not help
			return fmt.Sprintf("source %s makes no progress", name)
		}
	}
	_, broken := d.endedSources()
	for _, name := range slices.Sorted(maps.Keys(broken)) {
		return fmt.Sprintf("source %s stopped: %v", name, broken[name])
	}
	return ""
}

func isOwnSource(all []sources.Source, name string) bool {
	return slices.ContainsFunc(all, func(s sources.Source) bool {
		return s.Name() == name && !s.Info().Remote
	})
}

// runningEvery is the interval at which the running versions are determined. It is long, because there may be thousands
// of pods.
const runningEvery = time.Minute

type running struct {
	mu       sync.Mutex
	at       time.Time
	versions map[string][]string // versions by component; see components.Running
}

// runningVersions returns the running versions of components on nodes and in trusted namespaces. The result may be a
// minute old.
func (d *Daemon) runningVersions() map[string][]string {
	r := &d.running
	r.mu.Lock()
	defer r.mu.Unlock()
	now := d.now()
	if len(r.versions) > 0 && now.Sub(r.at) < runningEvery && !now.Before(r.at) {
		return r.versions
	}
	trusted := d.pipe.Rules().Namespaces.Has
	var images []string
	for _, src := range d.sources {
		if known := src.Info().Images; known != nil {
			images = append(images, known.Running(trusted)...)
		}
	}
	seen := map[string]bool{"": true}
	for _, s := range d.readSources() {
		for _, st := range s.Streams {
			if image := st.Labels["image"]; !seen[image] && trusted(st.Labels["namespace"]) {
				seen[image] = true
				images = append(images, image)
			}
		}
	}
	r.at, r.versions = now, components.RunningVersions(images)
	return r.versions
}

// unverifiedRules returns the rules for the alert about unverified releases. It returns nil in an agent, and if the
// alert is not configured.
func (d *Daemon) unverifiedRules() []rules.UnverifiedRelease {
	if !d.cfg.Load().Rules.AlertUnverified || d.pipe.concluder.aggregatorState().remote {
		return nil
	}
	return d.pipe.Rules().Unverified(d.runningVersions())
}
