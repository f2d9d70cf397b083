package web

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/rules"
)

// withCauses is a view of a cause with two symptoms, one of which has a symptom itself.
func withCauses() View {
	v := exampleView()
	names := []string{"StoreSlow", "LeaseLost", "WebhookTimesOut", "NodeNotReady", "Unrelated"}
	causes := []int{-1, 0, 0, 1, -1}
	severities := []string{"warning", "critical", "info", "info", "warning"}
	var all []episodes.Episode
	for i, name := range names {
		e := episodes.Episode{
			Fingerprint: episodes.Fingerprint(0x1000 + i), Alert: name, Rule: &rules.Rule{Alert: name, Pack: "demo"}, State: episodes.StateFiring,
			Labels: map[string]string{"alertname": name, "severity": severities[i]}, StartsAt: now.Add(time.Duration(i) * time.Minute), Count: 1,
		}
		if k := causes[i]; k >= 0 {
			e.Cause = &episodes.Cause{Fingerprint: all[k].Fingerprint, Alert: names[k], Severity: severities[k], Labels: all[k].Labels, Summary: hostile, StartsAt: all[k].StartsAt}
		}
		all = append(all, e)
	}
	v.Episodes = func() []episodes.Episode { return all }
	v.Timeline = func(fp episodes.Fingerprint) (episodes.Timeline, bool) {
		if n := int(fp) - 0x1000; n >= 0 && n < len(all) {
			return episodes.Timeline{Episode: all[n]}, true
		}
		return episodes.Timeline{}, false
	}
	return v
}

func TestAlertsPageGroupsSymptoms(t *testing.T) {
	s := newTestServer(t, withCauses(), Options{})
	body := request(s, "GET", "/").Body.String()
	last := -1
	fingerprints := map[string]string{}
	for _, e := range withCauses().Episodes() {
		fingerprints[e.Alert] = e.Fingerprint.String()
	}
	// A symptom has a row of its own only if it is more severe than its cause.
	for _, name := range []string{"LeaseLost", "Unrelated", "StoreSlow"} {
		at := strings.Index(body, `class="go" href="/episodes/`+fingerprints[name])
		require.Greater(t, at, last, name)
		last = at
	}
	require.Equal(t, 3, strings.Count(body, "<article"))
	require.Equal(t, 2, strings.Count(body, `<span class="tag">1 symptom</span>`))
	require.Contains(t, body, `<a href="/?filter=alertname%3D%22NodeNotReady%22">NodeNotReady</a> <span class="soft">1 alert</span>`)
	require.Contains(t, body, `Symptom of <a href="/episodes/0000000000001000">StoreSlow</a>`)
	require.NotContains(t, body, hostile)

	// A symptom whose cause does not match the filter is listed all the same.
	body = request(s, "GET", "/?filter=severity%3Dcritical").Body.String()
	require.Contains(t, body, ">LeaseLost</b>")
	require.Contains(t, body, `Symptom of <a href="/episodes/0000000000001000">StoreSlow</a>`)
}

func TestEpisodePageLinksCauseAndSymptoms(t *testing.T) {
	s := newTestServer(t, withCauses(), Options{})
	body := request(s, "GET", "/episodes/0000000000001001").Body.String()
	require.Contains(t, body, `This is a symptom of <a href="/episodes/0000000000001000">StoreSlow</a>`)
	require.Contains(t, body, `<li><a href="/episodes/0000000000001003">NodeNotReady</a>`)
	require.NotContains(t, body, hostile)
	body = request(s, "GET", "/episodes/0000000000001000").Body.String()
	require.NotContains(t, body, "symptom of <a")
	require.Contains(t, body, `<li><a href="/episodes/0000000000001002">WebhookTimesOut</a>`)
}

func TestAPIHasCauses(t *testing.T) {
	s := newTestServer(t, withCauses(), Options{})
	var list struct{ Data struct{ Episodes []Episode } }
	require.NoError(t, json.Unmarshal(request(s, "GET", "/api/v1/episodes").Body.Bytes(), &list))
	byName := map[string]Episode{}
	for _, e := range list.Data.Episodes {
		byName[e.Alert] = e
	}
	require.Nil(t, byName["StoreSlow"].Cause)
	require.Equal(t, []string{"0000000000001001", "0000000000001002"}, byName["StoreSlow"].Symptoms)
	require.Equal(t, "0000000000001000", byName["LeaseLost"].Cause.Fingerprint)
	require.Equal(t, "warning", byName["LeaseLost"].Cause.Severity)
	require.Equal(t, []string{"0000000000001003"}, byName["LeaseLost"].Symptoms)
	for _, path := range []string{"", "/timeline"} {
		body := request(s, "GET", "/api/v1/episodes/0000000000001001"+path).Body.String()
		require.Contains(t, body, `"cause":{"fingerprint":"0000000000001000","alert":"StoreSlow"`)
		require.Contains(t, body, `"symptoms":["0000000000001003"]`)
	}
}

func TestRulePageShowsCauses(t *testing.T) {
	v := exampleView()
	loaded := v.Rules()
	loaded.Set.Rules[0].Causes = []rules.Cause{{Alert: "Off"}, {Alert: "Far", Same: []string{}, Lag: time.Minute}, {Alert: "Near", Same: []string{"a", "b"}}}
	v.Rules = func() Rules { return loaded }
	s := newTestServer(t, v, Options{})
	body := request(s, "GET", "/rules/LeaseLost").Body.String()
	require.Contains(t, body, `<a href="/rules/Off">Off</a> with equal names of by, begun earlier</li>`)
	require.Contains(t, body, `<a href="/rules/Far">Far</a> in the same cluster, begun earlier or up to 1m later</li>`)
	require.Contains(t, body, `<a href="/rules/Near">Near</a> with the same a, b, begun earlier</li>`)
	require.Contains(t, request(s, "GET", "/rules/Off").Body.String(), `<h2>Symptoms</h2><ul><li><a href="/rules/LeaseLost">LeaseLost</a></li></ul>`)
	require.Contains(t, request(s, "GET", "/api/v1/rules").Body.String(), `"symptomOf":[{"alert":"Off"},{"alert":"Far","anyLabels":true,"lag":60},{"alert":"Near","same":["a","b"]}]`)
}

// Each alert is counted once, even if snapshots of different times form a circle.
func TestFoldCountsEachOnce(t *testing.T) {
	var list []episodes.Episode
	for i := range 6 {
		e := episodes.Episode{Fingerprint: episodes.Fingerprint(i), Alert: fmt.Sprint(i)}
		if i < 5 {
			e.Cause = &episodes.Cause{Fingerprint: episodes.Fingerprint((i + 1) % 3)}
		}
		list = append(list, e)
	}
	n := 0
	for _, r := range (folder{suppression: notSuppressed}).foldRows(list) {
		n += r.Total + int(r.Caused())
	}
	require.Equal(t, 6, n)
}
