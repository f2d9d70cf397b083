package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/internal/text"
)

// arrivals tracks which expected alerts an Alertmanager has.
type arrivals struct {
	fires    []Expected
	resolves []Expected
	arrived  map[int]bool
	resolved map[int]bool
	strange  map[string]bool // alerts that no story expects
}

// Await returns nil once every alert that the stories expect has arrived at the
// Alertmanager and every one that resolves has resolved there. An alert that no
// story expects is an error, as is the end of ctx. Meanwhile say gets a sentence about what
// is missing, every eight seconds.
func (am *Alertmanager) Await(ctx context.Context, stories []Story, say func(sentence string)) error {
	a := &arrivals{arrived: map[int]bool{}, resolved: map[int]bool{}, strange: map[string]bool{}}
	for _, s := range stories {
		a.fires = append(a.fires, s.Fires...)
		a.resolves = append(a.resolves, s.Resolves...)
	}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	progress := time.NewTicker(8 * time.Second)
	defer progress.Stop()
	for {
		active, err := am.active(ctx)
		if err == nil {
			a.look(active)
		}
		if len(a.strange) > 0 {
			return fmt.Errorf("alerts arrived that no incident expects:\n  %s", strings.Join(slices.Sorted(maps.Keys(a.strange)), "\n  "))
		}
		if len(a.missing()) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not every expected alert arrived:\n  %s: %w", strings.Join(a.missing(), "\n  "), ctx.Err())
		case <-progress.C:
			say(fmt.Sprintf("(waiting for Alertmanager: %d of %d expected alerts arrived, %d of %d resolved)",
				len(a.arrived), len(a.fires), len(a.resolved), len(a.resolves)))
		case <-tick.C:
		}
	}
}

func (am *Alertmanager) active(ctx context.Context) ([]map[string]string, error) {
	body, err := get(ctx, am.URL+"/api/v2/alerts")
	if err != nil {
		return nil, err
	}
	var in []struct {
		Labels map[string]string `json:"labels"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	out := make([]map[string]string, len(in))
	for i, x := range in {
		out[i] = x.Labels
	}
	return out, nil
}

func (a *arrivals) look(active []map[string]string) {
	for _, labels := range active {
		known := strings.HasPrefix(labels["alertname"], "Crowsnest")
		for i, e := range a.fires {
			if e.covers(labels) {
				a.arrived[i], known = true, true
			}
		}
		if !known {
			a.strange[text.Labels(labels)] = true
		}
	}
	for i, e := range a.resolves {
		fired := false
		for j, f := range a.fires {
			fired = fired || a.arrived[j] && (e.covers(f) || f.covers(e))
		}
		if fired && !slices.ContainsFunc(active, e.covers) {
			a.resolved[i] = true
		}
	}
}

// missing lists the expected alerts that have not arrived or resolved yet.
func (a *arrivals) missing() []string {
	var out []string
	for i, e := range a.fires {
		if !a.arrived[i] {
			out = append(out, "not arrived: "+text.Labels(e))
		}
	}
	for i, e := range a.resolves {
		if !a.resolved[i] {
			out = append(out, "not resolved: "+text.Labels(e))
		}
	}
	return out
}
