package replay

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/rules"
)

// snapshotFile holds an alert of nearly every shipped rule, as a released version saved
// them. The upgrade test of episodes restores it.
const snapshotFile = "../episodes/testdata/engine-0.1.json.gz"

// The snapshot knows most of the shipped rules. UPDATE_SNAPSHOTS=1 writes it again, which is
// due at a release only, because an upgrade from the release before must keep its alerts.
func TestSnapshotOfShippedRules(t *testing.T) {
	set, err := rules.Load(rules.Shipped())
	require.NoError(t, err)
	if os.Getenv("UPDATE_SNAPSHOTS") != "" {
		writeSnapshot(t, set)
	}
	f, err := os.Open(snapshotFile)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	var state struct{ Rules []struct{ Alert string } }
	require.NoError(t, json.NewDecoder(z).Decode(&state))
	known := 0
	for _, r := range state.Rules {
		if slices.ContainsFunc(set.Rules, func(s *rules.Rule) bool { return s.Alert == r.Alert }) {
			known++
		}
	}
	require.Greater(t, known, len(set.Rules)*3/4)
}

// writeSnapshot runs a test of each rule until its alert fires, and writes the states of
// all rules as those of one moment.
func writeSnapshot(t *testing.T, set *rules.Set) {
	moment := testStart.Add(365 * 24 * time.Hour)
	var all map[string]any
	var list []any
	for _, r := range set.Rules {
		state := firingState(t, r, moment)
		if state == nil {
			continue
		}
		for _, one := range state["rules"].([]any) {
			if one := one.(map[string]any); one["alert"] == r.Alert && one["open"] != nil {
				one["open"] = one["open"].([]any)[:1]
				list = append(list, one)
			}
		}
		all = state
	}
	all = map[string]any{"version": all["version"], "identity": all["identity"], "rules": list}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	require.NoError(t, err)
	require.NoError(t, json.NewEncoder(z).Encode(all))
	require.NoError(t, z.Close())
	require.NoError(t, os.WriteFile(snapshotFile, b.Bytes(), 0o644))
}

// firingState returns the saved state of an engine at a moment, in which the alert of a rule
// fires; nil if no test of the rule has only firing alerts.
func firingState(t *testing.T, r *rules.Rule, moment time.Time) map[string]any {
	set, prog, err := ruleAlone(r)
	require.NoError(t, err)
	for _, test := range r.Tests {
		i := slices.IndexFunc(test.Expect, func(c rules.Checkpoint) bool { return len(c.Firing) > 0 })
		if i < 0 || slices.ContainsFunc(test.Input, func(in rules.Input) bool { return in.Source != "" || in.Do != "" || in.Cause != "" }) {
			continue
		}
		at := test.Expect[i].At
		steps := testSteps(test)
		s := newSession(set, prog, testStart, episodes.Config{}, testSources(test, steps)...)
		for ; len(steps) > 0 && steps[0].at <= at; steps = steps[1:] {
			s.reachTime(testStart.Add(steps[0].at))
			require.NoError(t, s.runInput(test, steps[0]))
		}
		s.reachTime(testStart.Add(at))
		s.endRecords(testStart.Add(at))
		s.settleAt(testStart.Add(at))
		s.engine.ClockSet(moment.Sub(testStart.Add(at)), moment)
		b, err := s.engine.Snapshot()
		require.NoError(t, err)
		decoder := json.NewDecoder(bytes.NewReader(b))
		decoder.UseNumber()
		var state map[string]any
		require.NoError(t, decoder.Decode(&state))
		return state
	}
	return nil
}
