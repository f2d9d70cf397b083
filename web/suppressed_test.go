package web

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/episodes/history"
)

// suppressedView returns a view whose open alert is suppressed for a reason.
func suppressedView(reason *history.Suppression, problem string) View {
	v := exampleView()
	v.Suppression = func(fp episodes.Fingerprint) *history.Suppression {
		if fp == 0xabc {
			return reason
		}
		return nil
	}
	v.SuppressionProblem = func() string { return problem }
	return v
}

// List, page and API show why Alertmanager notifies nobody of an alert, and that this is not known.
func TestSuppressedAlerts(t *testing.T) {
	silence := &history.Suppression{Silence: "id-1", Author: "Ada " + hostile, Comment: "upgrade", StartsAt: now.Add(-time.Hour), EndsAt: now.Add(time.Hour)}
	inhibited := &history.Suppression{InhibitedBy: []string{"NodeDown", hostile}}
	f := func(reason *history.Suppression, tag, text string) {
		t.Helper()
		s := newTestServer(t, suppressedView(reason, ""), Options{})
		list := request(s, "GET", "/").Body.String()
		page := request(s, "GET", "/episodes/0000000000000abc").Body.String()
		for _, body := range []string{list, page} {
			require.NotContains(t, body, "<script>alert")
			if reason == nil {
				require.NotContains(t, body, "Alertmanager does not notify of it")
				continue
			}
			require.Contains(t, body, text)
			require.Contains(t, body, "Alertmanager does not notify of it")
		}
		if reason != nil {
			require.Contains(t, list, `<span class="tag">`+tag+`</span>`)
		}
		var answer struct{ Data Episode }
		require.NoError(t, json.Unmarshal(request(s, "GET", "/api/v1/episodes/0000000000000abc").Body.Bytes(), &answer))
		require.Equal(t, reason, answer.Data.Suppressed)
		require.NotContains(t, request(s, "GET", "/episodes/0000000000000def").Body.String(), "notify of it", "it ended")
	}
	f(silence, "silenced", "Silenced from 2026-01-02 02:04:05Z until 2026-01-02 04:04:05Z by Ada ")
	f(inhibited, "inhibited", "Inhibited by NodeDown, ")
	f(nil, "", "")
	list := request(newTestServer(t, suppressedView(nil, "am2: refused "+hostile), Options{}), "GET", "/").Body.String()
	require.Contains(t, list, "Which alerts are silenced or inhibited is not known: am2: refused ")
	require.NotContains(t, list, "<script>alert")
}

// An alert that is not sent is not suppressed.
func TestSilentAlertIsNotSuppressed(t *testing.T) {
	v := exampleView()
	v.Suppression = func(episodes.Fingerprint) *history.Suppression { return &history.Suppression{Silence: "1"} }
	var answer struct{ Data Episode }
	require.NoError(t, json.Unmarshal(request(newTestServer(t, v, Options{}), "GET", "/api/v1/episodes/0000000000000123").Body.Bytes(), &answer))
	require.True(t, answer.Data.Silent)
	require.Nil(t, answer.Data.Suppressed)
}

// The history keeps the reason, and so does the page of an ended alert.
func TestSuppressedInHistory(t *testing.T) {
	e := pastEntry("LeaseLost", "team-a", 1)
	e.Suppressed = &history.Suppression{Silence: "id-1", Author: "Ada", Comment: "upgrade", StartsAt: e.StartsAt.Add(-time.Minute), EndsAt: now}
	s := newTestServer(t, pastView(e), Options{})
	require.Equal(t, e.Suppressed, queryPast(t, s, nil).Episodes[0].Suppressed)
	const text = "Silenced from 2026-01-02 02:03:05Z until 2026-01-02 03:04:05Z by Ada: upgrade"
	require.Contains(t, request(s, "GET", "/history").Body.String(), text)
	page := request(s, "GET", "/episodes/"+episodes.Fingerprint(e.Fingerprint).String()).Body.String()
	require.Contains(t, page, text+". Alertmanager did not notify of it.")
}
