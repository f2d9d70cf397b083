package daemon

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"crowsnest/sinks/upstream"
	"crowsnest/sources"
	"crowsnest/web"
)

// setReadiness fills in the state for the probes. Ready means that this process does
// its part: its state is restored, it has rules, and its own sources are open.
// Unreachable peers (the Kubernetes API, Loki, an aggregator) are listed as absent
// and change neither readiness nor liveness: a restart would not help, and agents
// cannot connect to a pod that is not ready.
func (d *Daemon) setReadiness(st *web.Status) {
	if !d.restored.Load() {
		st.Missing = append(st.Missing, "the saved state is not restored yet (another instance may hold it)")
	}
	if len(d.pipe.rules.Load().set.Rules) == 0 {
		st.Missing = append(st.Missing, "no rules are loaded")
	}
	for i, s := range d.sourceStatus() {
		_, remote := d.sources[i].(sources.Remote)
		switch {
		case !s.Opened && !remote:
			st.Missing = append(st.Missing, notOpened(s))
		case !s.Opened:
			st.Absent = append(st.Absent, notOpened(s))
		case !s.Up:
			st.Absent = append(st.Absent, fmt.Sprintf("source %s is down: %s", s.Name, s.Error))
		case s.Idle != "":
			st.Absent = append(st.Absent, fmt.Sprintf("source %s has nothing to watch: %s", s.Name, s.Idle))
		}
	}
	if up := d.pipe.up; up != nil && (!up.Stats().Reached || up.Stats().LastError != "") {
		st.Absent = append(st.Absent, notReached(up.Stats()))
	}
	st.Unhealthy = d.unhealthy()
}

func notOpened(s sources.Status) string {
	if s.Error != "" {
		return fmt.Sprintf("source %s cannot be opened: %s", s.Name, s.Error)
	}
	return fmt.Sprintf("source %s has not been opened yet", s.Name)
}

// notReached says why the aggregator does not accept the hits of this agent.
func notReached(st upstream.Stats) string {
	if st.LastError != "" {
		return "the aggregator cannot be reached: " + st.LastError
	}
	return "the aggregator has not been reached yet"
}

// unhealthy returns what has stopped permanently in this process and may work again
// after a restart; "" if nothing has.
func (d *Daemon) unhealthy() string {
	for _, name := range d.self.hung() {
		if d.own(name) && !d.waitsForUpstream() {
			return fmt.Sprintf("source %s makes no progress", name)
		}
	}
	_, broken := d.ended()
	for _, name := range slices.Sorted(maps.Keys(broken)) {
		return fmt.Sprintf("source %s stopped: %v", name, broken[name])
	}
	return ""
}

// own reports whether the source depends on no other process.
func (d *Daemon) own(name string) bool {
	return slices.ContainsFunc(d.sources, func(s sources.Source) bool {
		_, remote := s.(sources.Remote)
		return s.Name() == name && !remote
	})
}

// unanswered returns since when the aggregator has not answered this agent; the
// zero time if it answers or there is none.
func (d *Daemon) unanswered() time.Time {
	if d.pipe.up == nil {
		return time.Time{}
	}
	st := d.pipe.up.Stats()
	since := d.self.answered(st.LastAnswer)
	if st.LastError == "" && st.Reached {
		return time.Time{}
	}
	return since
}
