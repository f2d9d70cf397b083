package daemon

import (
	"fmt"
	"maps"
	"slices"

	"crowsnest/sources"
	"crowsnest/web"
)

// setReadiness fills in the state for the probes. Ready means that this process does its part.
// Its state is restored, it has rules, and its own sources are open. Unreachable peers (the
// Kubernetes API, Loki, an aggregator) are listed as absent and change neither readiness nor
// liveness, because a restart would not help, and agents cannot connect to a pod that is not
// ready. A standby is ready when it has the state of the leader.
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
	if why := d.pipe.concluder.peer().absent; why != "" {
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

// whyUnhealthy returns the part that has stopped for good and may work after a restart, or "".
func (d *Daemon) whyUnhealthy() string {
	for _, name := range d.self.HungSources() {
		if isOwnSource(d.sources, name) && !d.pipe.concluder.peer().blocked { // a restart would not help
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
