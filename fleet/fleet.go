// Package fleet concludes from the open alerts of many clusters which failures are in many
// of them: the same rule, open in enough clusters at the same time, is one alert. It
// concludes nothing else; whether a failure is open in a cluster is known where its logs
// are.
//
// A cluster that does not answer is unknown. It neither makes an alert fire nor end: only
// an answer without the rule removes a cluster from an alert.
package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/times"
	source "crowsnest/sources/fleet"
)

// AlertName is the name of the alerts.
const AlertName = "CrowsnestFleetFailure"

// Fleet holds the alerts about failures in many clusters. It is safe for concurrent use.
type Fleet struct {
	cfg source.Alert

	mu       sync.Mutex
	failures map[string]*failure // by rule
	fired    int64
	changed  bool // since the last Export
	encoded  []byte
}

// failure is a rule that is open in enough clusters, or was lately.
type failure struct {
	Rule     string `json:"rule"`
	Severity string `json:"severity"` // the most severe when it fired; it stays
	// Enough is since when enough clusters have it; before it fires.
	Enough time.Time `json:"enough,omitzero"`
	// StartsAt is when enough clusters had it, and FiredAt when the alert fired; zero: it
	// has not.
	StartsAt time.Time `json:"startsAt,omitzero"`
	FiredAt  time.Time `json:"firedAt,omitzero"`
	// Below is since when too few clusters have it; zero: enough have.
	Below time.Time `json:"below,omitzero"`
	// In are the clusters of the alert, with what they last reported.
	In map[string]source.Rule `json:"in,omitempty"`
	// Sent are the annotations of which sinks were notified.
	Sent map[string]string `json:"sent,omitempty"`
}

// New returns the alerts of a fleet. The settings have no defaults left.
func New(cfg source.Alert) *Fleet {
	return &Fleet{cfg: cfg, failures: map[string]*failure{}}
}

// Needed returns in how many of all clusters a rule must be open.
func (f *Fleet) Needed(clusters int) int {
	if f.cfg.MinShare > 0 {
		return max(2, int(math.Ceil(f.cfg.MinShare*float64(clusters)-1e-9)))
	}
	return f.cfg.MinClusters
}

// Evaluate returns the alerts that fired, changed or ended, in the order of their rules.
func (f *Fleet) Evaluate(now time.Time, clusters []source.Cluster) []episodes.Episode {
	f.mu.Lock()
	defer f.mu.Unlock()
	open := byRule(clusters)
	for rule := range open {
		if f.failures[rule] == nil {
			f.failures[rule] = &failure{Rule: rule}
		}
	}
	need := f.Needed(len(clusters))
	var out []episodes.Episode
	for _, rule := range slices.Sorted(maps.Keys(f.failures)) {
		x := f.failures[rule]
		if x.FiredAt.IsZero() && !f.fires(x, now, open[rule], need) {
			if x.Enough.IsZero() {
				delete(f.failures, rule)
			}
			continue
		}
		was := *x
		x.update(open[rule], clusters)
		ends := x.ends(now, need, f.cfg.Hold)
		f.changed = f.changed || len(was.In) != len(x.In) || !was.Below.Equal(x.Below)
		e := x.episode(clusters)
		switch {
		case ends:
			e.State, e.Reason, e.EndsAt, e.Concluded = episodes.StateResolved, episodes.ReasonClear, times.Later(x.Below, x.StartsAt), now.UTC()
			delete(f.failures, rule)
		case maps.Equal(x.Sent, e.Annotations):
			continue
		default:
			x.Sent = e.Annotations
		}
		f.changed = true
		out = append(out, e)
	}
	return out
}

// byRule returns the open rules of the clusters that are up, by rule and cluster.
func byRule(clusters []source.Cluster) map[string]map[string]source.Rule {
	out := map[string]map[string]source.Rule{}
	for _, c := range clusters {
		if c.State != source.Up {
			continue
		}
		for _, r := range c.Rules {
			if out[r.Name] == nil {
				out[r.Name] = map[string]source.Rule{}
			}
			out[r.Name][c.Name] = r
		}
	}
	return out
}

// fires reports whether a failure that has not fired does so now.
func (f *Fleet) fires(x *failure, now time.Time, open map[string]source.Rule, need int) bool {
	if len(open) < need {
		x.Enough = time.Time{}
		return false
	}
	if x.Enough.IsZero() || x.Enough.After(now) {
		x.Enough, f.changed = now.UTC(), true
	}
	if now.Sub(x.Enough) < f.cfg.For {
		return false
	}
	x.Severity = "info"
	var since []time.Time
	for _, r := range open {
		if source.Severity(r.Severity) > source.Severity(x.Severity) {
			x.Severity = r.Severity
		}
		since = append(since, r.Since)
	}
	slices.SortFunc(since, time.Time.Compare)
	x.FiredAt = now.UTC()
	if x.StartsAt = since[need-1]; x.StartsAt.After(now) { // by the clock of another machine
		x.StartsAt = now.UTC()
	}
	x.In = map[string]source.Rule{}
	f.fired++
	return true
}

// update makes In the clusters that have the failure. One that is not up stays as it was,
// until it is no longer a cluster of the fleet.
func (x *failure) update(open map[string]source.Rule, clusters []source.Cluster) {
	next := map[string]source.Rule{}
	for _, c := range clusters {
		r, is := open[c.Name]
		if was, had := x.In[c.Name]; !is && had && c.State != source.Up {
			r, is = was, true
		}
		if is {
			next[c.Name] = r
		}
	}
	x.In = next
}

// ends reports whether too few clusters have had the failure for long enough.
func (x *failure) ends(now time.Time, need int, hold time.Duration) bool {
	if len(x.In) >= need {
		x.Below = time.Time{}
		return false
	}
	if x.Below.IsZero() || x.Below.After(now) {
		x.Below = now.UTC()
	}
	return now.Sub(x.Below) >= hold
}

// Open returns the open alerts, the earliest first, as they are with these clusters.
func (f *Fleet) Open(clusters []source.Cluster) []episodes.Episode {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []episodes.Episode
	for _, x := range f.failures {
		if !x.FiredAt.IsZero() {
			out = append(out, x.episode(clusters))
		}
	}
	slices.SortFunc(out, func(a, b episodes.Episode) int {
		if n := a.StartsAt.Compare(b.StartsAt); n != 0 {
			return n
		}
		return strings.Compare(a.Labels["rule"], b.Labels["rule"])
	})
	return out
}

// saved is the form of the state.
type saved struct {
	Failures []*failure `json:"failures"`
	Fired    int64      `json:"fired"`
}

// Export returns the state for the next process. The bytes must not be changed.
func (f *Fleet) Export() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.encoded != nil && !f.changed {
		return f.encoded, nil
	}
	out := saved{Failures: []*failure{}, Fired: f.fired}
	for _, rule := range slices.Sorted(maps.Keys(f.failures)) {
		out.Failures = append(out.Failures, f.failures[rule])
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encode alerts about the fleet: %w", err)
	}
	f.encoded, f.changed = b, false
	return b, nil
}

// Import reads the result of Export, before the first Evaluate.
func (f *Fleet) Import(b []byte) error {
	var in saved
	if err := json.Unmarshal(b, &in); err != nil {
		return fmt.Errorf("read alerts about the fleet: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fired = in.Fired
	for _, x := range in.Failures {
		if x != nil && x.Rule != "" {
			f.failures[x.Rule] = x
		}
	}
	return nil
}

// Changed reports whether the state differs from the last Export.
func (f *Fleet) Changed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}
