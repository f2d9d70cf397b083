package daemon

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"crowsnest/agent/server"
	"crowsnest/daemon/config"
	"crowsnest/daemon/loader"
	"crowsnest/episodes"
	"crowsnest/internal/times"
	"crowsnest/redact"
	"crowsnest/rules"
	"crowsnest/rules/selector"
	"crowsnest/sources"
	"crowsnest/unknown/sentinel"
	"crowsnest/web"
)

const (
	// searchedLines is the maximum number of lines without a log level in one block that are searched for words that
	// indicate errors. Only while old lines are read do blocks contain more lines.
	searchedLines = 128
	// unknownEvery is the interval at which the sentinel draws conclusions. summaryEvery is the interval at which an
	// agent reports its unmatched errors.
	unknownEvery = 5 * time.Second
	summaryEvery = 30 * time.Second
	maxUnknown   = 100
)

func (d *Daemon) newSentinel(cfg *config.Config, red *redact.Redactor) *sentinel.Sentinel {
	if !cfg.Sentinel.Enabled {
		return nil
	}
	out := sentinel.Config{
		PerDay: cfg.Sentinel.AlertsPerDay, Redactor: red, Identity: cfg.Global.Identity,
		Trusted: func(namespace string) bool { return namespace == "" || d.pipe.Rules().Namespaces.Has(namespace) },
		Image:   func(namespace, pod, container string) string { return d.pipe.findImage(namespace, pod, container) },
		Alerts:  func() []episodes.Episode { return d.engine.Episodes(d.now()) },
	}
	for _, g := range cfg.Sentinel.Ignore {
		out.Ignore = append(out.Ignore, sentinel.IgnoreRule{Namespace: g.Namespace, Component: g.Component, Text: g.Text})
	}
	return sentinel.New(out)
}

// findImage returns the image of a container, or "" if no source knows it.
func (p *pipeline) findImage(namespace, pod, container string) string {
	p.mu.Lock()
	known := p.images
	p.mu.Unlock()
	for _, source := range known {
		if image := source.Image(namespace, pod, container); image != "" {
			return image
		}
	}
	return ""
}

// takeComplaints passes the unmatched errors that agents report to the sentinel.
func (d *Daemon) takeComplaints() {
	if d.sentinel == nil {
		return
	}
	for _, a := range d.agentSources() {
		a.OnComplaints(func(member string, report []byte) error {
			if len(report) == 0 {
				d.sentinel.Forget(member)
				return nil
			}
			return d.sentinel.Merge(member, report, d.now())
		})
	}
}

// evaluateUnknown decides which unmatched errors are failures. It does nothing in an agent.
func (d *Daemon) evaluateUnknown(now time.Time) {
	if d.sentinel == nil || d.pipe.concluder.aggregatorState().remote || !d.restoredUntil.IsZero() || !d.warmUntil.IsZero() {
		return
	}
	if now.Sub(d.unknownAt) < unknownEvery && !now.Before(d.unknownAt) {
		return
	}
	d.unknownAt = now
	var members []string
	for _, a := range d.agentSources() {
		members = append(members, a.Members()...)
	}
	d.sentinel.Retain(members)
	var changes []episodes.Episode
	d.pipe.withCheckpointLock(func() bool { // so that a snapshot contains both the conclusions and the effects of sending them
		changes = d.sentinel.Evaluate(now, d.newProof())
		d.addToHistory(changes)
		d.notifyReceivers(changes)
		return len(changes) > 0
	})
	for i := range changes {
		x := &changes[i]
		d.log.Info().Str("alert", x.Alert).Str("state", string(x.State)).Str("namespace", x.Labels["namespace"]).Msg("a failure that no rule describes: " + x.Annotations["summary"])
	}
}

// withCheckpointLock calls f with the checkpoint lock held for reading. f must report whether it changed the state.
func (p *pipeline) withCheckpointLock(f func() bool) {
	p.lock.RLock()
	defer p.lock.RUnlock()
	if f() {
		p.changed.Store(true)
	}
}

// newProof returns a function that returns the time up to which all lines of the streams with certain labels have been
// read. The function returns zero if a source that may have such streams is down.
func (d *Daemon) newProof() sentinel.Proof {
	reported := d.sentinel.ReportTimes()
	return func(labels map[string]string) time.Time {
		from, err := newSelector(labels)
		if err != nil {
			return time.Time{}
		}
		var earliest time.Time
		for _, src := range d.sources {
			for _, t := range d.readUpTo(src, from, reported) {
				if t.IsZero() {
					return t
				}
				if earliest.IsZero() || t.Before(earliest) {
					earliest = t
				}
			}
		}
		return earliest
	}
}

// readUpTo returns the times up to which a source, or each of its agents, has read the lines of the streams that from
// selects. It ignores agents that report no unmatched errors.
func (d *Daemon) readUpTo(src sources.Source, from rules.Selector, reported map[string]time.Time) (out []time.Time) {
	if a, ok := src.(*server.Source); ok {
		for _, member := range a.Members() {
			if t, reports := reported[member]; reports && a.MemberServes(member)(from) {
				out = append(out, t)
			}
		}
		return out
	}
	if src.Serves(from) {
		out = append(out, d.pipe.watermarkOf(src.Name(), from, sourceLateness(src)))
	}
	return out
}

// watermarkOf returns the time up to which a source has read the streams that from selects. It returns zero if the
// source has no watermark.
func (p *pipeline) watermarkOf(name string, from rules.Selector, late time.Duration) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.watermarks[name]
	for _, l := range p.lagging[name] {
		if l.Labels == nil || from.MaySelect(l.Labels, l.UnknownLabels) {
			t = times.Min(t, l.ReadUpTo)
		}
	}
	if t.IsZero() {
		return t
	}
	return t.Add(-late)
}

func newSelector(labels map[string]string) (rules.Selector, error) {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, name+"="+strconv.Quote(labels[name]))
	}
	from, err := selector.Parse("{" + strings.Join(parts, ",") + "}")
	if err != nil {
		return from, fmt.Errorf("selector of a component: %w", err)
	}
	return from, nil
}

func (d *Daemon) unknownView() web.Unknown {
	out := web.Unknown{Enabled: d.sentinel != nil, Forwarded: d.pipe.concluder.aggregatorState().remote, PerDay: d.opt.Cfg.Sentinel.AlertsPerDay, Failures: []web.UnknownFailure{}}
	if d.sentinel == nil {
		return out
	}
	st := d.sentinel.Stats()
	out.Patterns, out.Components, out.Evicted = int64(st.Patterns), int64(st.Components), st.Evicted
	if out.Forwarded {
		return out
	}
	for _, u := range d.unknownFailures() {
		out.Failures = append(out.Failures, web.UnknownFailure{
			Fingerprint: u.Fingerprint.String(), State: u.State, Reason: u.Reason, Component: u.Name(), Labels: u.Labels, Pattern: u.Pattern, OtherTexts: u.OtherTexts,
			Level: u.Level.String(), Object: u.Object, Since: u.Since, Last: u.Last, Count: u.Count, Pods: u.Pods, Changes: u.Changes,
			Examples: u.Examples, Ignore: u.Ignore,
		})
	}
	return out
}

func (d *Daemon) unknownFailures() []sentinel.UnknownFailure {
	return d.sentinel.List(d.now(), d.newProof(), maxUnknown)
}

var errNoUnknown = errors.New("no failure has this fingerprint")

func (d *Daemon) unknownRule(fingerprint string) (string, error) {
	if d.sentinel == nil {
		return "", errNoUnknown
	}
	for _, u := range d.unknownFailures() {
		if u.Fingerprint.String() == fingerprint {
			return u.Rule(func(pack []byte) error { return loader.TryPack("new.yaml", pack) })
		}
	}
	return "", errNoUnknown
}
