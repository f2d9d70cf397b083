package daemon

import (
	"sync"
	"time"

	"crowsnest/rules"
	"crowsnest/rules/components"
)

// runningEvery is how often the running versions are found out. There may be thousands of pods.
const runningEvery = time.Minute

type running struct {
	mu       sync.Mutex
	at       time.Time
	versions map[string][]string // see components.Running
}

// runningVersions returns the versions of components on nodes and in trusted namespaces, up to a minute old.
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

// unverifiedRules returns the rules for the alert about unverified releases, if it is configured and this is
// no agent.
func (d *Daemon) unverifiedRules() []rules.Unverified {
	if !d.cfg.Load().Rules.AlertUnverified || d.pipe.concluder.peer().remote {
		return nil
	}
	return d.pipe.Rules().Unverified(d.runningVersions())
}
