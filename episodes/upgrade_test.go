package episodes

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes/internal/instant"
	"crowsnest/episodes/internal/saved"
	"crowsnest/rules"
)

// changed are shipped rules that look for other lines than when the snapshot was written,
// so that an upgrade resolves their alerts.
var changed = []string{}

// testdata/engine-0.1.json.gz is the engine's part of a snapshot that version 0.1
// wrote: open alerts of most shipped rules. An upgrade neither resolves them nor notifies
// them with other labels, even though rules and keys have gained fields. If a rule has
// another severity now, its alert ends with the old one and goes on with the new one.
func TestAnUpgradeKeepsOpenAlerts(t *testing.T) {
	f, err := os.Open("testdata/engine-0.1.json.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	data, err := io.ReadAll(z)
	require.NoError(t, err)
	var old saved.State
	require.NoError(t, json.Unmarshal(data, &old))
	set, err := rules.Load(rules.Shipped())
	require.NoError(t, err)

	e := New(Config{})
	e.AddSource("kubelet", rules.Lateness, nil)
	newest := int64(0)
	type alert struct {
		starts time.Time
		state  State
	}
	want, regraded := map[Fingerprint]alert{}, map[Fingerprint]bool{}
	ended := func(alert string) bool { // its rule looks for other lines, or is gone
		return slices.Contains(changed, alert) || !slices.ContainsFunc(set.Rules, func(r *rules.Rule) bool { return r.Alert == alert })
	}
	for _, r := range old.Rules {
		if ended(r.Alert) {
			continue
		}
		for _, ep := range r.Open {
			if i := slices.IndexFunc(set.Rules, func(s *rules.Rule) bool { return s.Alert == r.Alert }); i >= 0 && string(set.Rules[i].Severity) != ep.Labels["severity"] {
				regraded[FingerprintOf(ep.Labels)] = true
				ep.Labels["severity"] = string(set.Rules[i].Severity)
			}
			want[FingerprintOf(ep.Labels)] = alert{instant.ToTime(ep.Starts - ep.ClockShift), State(ep.State)}
			newest = max(newest, ep.Newest)
		}
	}
	require.Greater(t, len(want), 200) // alerts of rules that still look for the same lines
	now := instant.ToTime(newest).Add(time.Second)
	e.Swap(set, now)
	require.NoError(t, e.Restore(data, now))
	got := map[Fingerprint]alert{}
	for _, x := range e.Evaluate(now) {
		if ended(x.Alert) {
			require.Equal(t, ReasonRemoved, x.Reason, x.Alert)
		}
		if regraded[x.Fingerprint] {
			require.Equal(t, ReasonIdentity, x.Reason, x.Alert)
			continue
		}
		if _, open := want[x.Fingerprint]; open && x.ConcludedAt.Equal(now) {
			require.NotContains(t, []State{StateResolved, StateDropped}, x.State,
				"%s ends (%s); if its rule now looks for other lines, add it to the list changed", x.Alert, x.Reason)
		}
	}
	for _, x := range e.Episodes(now) {
		if !x.Overflow && x.EndsAt.IsZero() {
			got[x.Fingerprint] = alert{x.StartsAt, x.State}
		}
	}
	require.Equal(t, want, got)
}
