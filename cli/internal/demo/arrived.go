package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"crowsnest/internal/text"
)

// awaited is an alert that must arrive at an Alertmanager, or that must resolve there.
type awaited struct {
	Expected
	ends    bool // whether the alert must resolve
	arrived bool
	done    bool
}

// Await returns nil once every alert that the stories expect has arrived at the Alertmanager,
// and every alert that must resolve has resolved there. It returns an error if an alert arrives
// that no story expects, or if ctx ends. Every eight seconds it passes to say a sentence about
// the missing alerts.
func (am *Alertmanager) Await(ctx context.Context, stories []Story, say func(sentence string)) error {
	var all []awaited
	for _, s := range stories {
		for _, e := range s.Fires {
			all = append(all, awaited{Expected: e})
		}
		for _, e := range s.Resolves {
			all = append(all, awaited{Expected: e, ends: true})
		}
	}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	progress := time.NewTicker(8 * time.Second)
	defer progress.Stop()
	for {
		active, err := am.activeAlerts(ctx)
		if err == nil {
			if strange := noteActive(all, active); len(strange) > 0 {
				return fmt.Errorf("alerts arrived that no incident expects:\n  %s", strings.Join(strange, "\n  "))
			}
		}
		var missing []string
		done := map[bool]int{}
		for _, a := range all {
			if a.done {
				done[a.ends]++
			} else {
				missing = append(missing, map[bool]string{false: "not arrived: ", true: "not resolved: "}[a.ends]+text.FormatLabels(a.Expected))
			}
		}
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not every expected alert arrived:\n  %s: %w", strings.Join(missing, "\n  "), ctx.Err())
		case <-progress.C:
			say(fmt.Sprintf("(waiting for Alertmanager: %d alerts arrived, %d resolved, %d of %d events are missing)", done[false], done[true], len(missing), len(all)))
		case <-tick.C:
		}
	}
}

func (am *Alertmanager) activeAlerts(ctx context.Context) ([]map[string]string, error) {
	body, err := get(ctx, am.URL+"/api/v2/alerts")
	if err != nil {
		return nil, err
	}
	var in []struct {
		Labels map[string]string `json:"labels"`
	}
	err = json.Unmarshal(body, &in)
	out := make([]map[string]string, len(in))
	for i, x := range in {
		out[i] = x.Labels
	}
	return out, err
}

// noteActive marks the awaited alerts that are active. It returns the active alerts that nobody
// expects, except for alerts of crowsnest about itself.
func noteActive(all []awaited, active []map[string]string) (strange []string) {
	for i := range all {
		a := &all[i]
		has := slices.ContainsFunc(active, a.coversLabels)
		a.arrived = a.arrived || has
		a.done = a.done || a.arrived && has != a.ends
	}
	for _, labels := range active {
		expected := slices.ContainsFunc(all, func(a awaited) bool { return !a.ends && a.coversLabels(labels) })
		if !expected && !strings.HasPrefix(labels["alertname"], "Crowsnest") {
			strange = append(strange, text.FormatLabels(labels))
		}
	}
	return strange
}
