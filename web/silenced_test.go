package web

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/alertmanager/pkg/labels"
	"github.com/stretchr/testify/require"
)

// An alert is marked if every cluster of Alertmanagers silences it, and not if that is unknown.
func TestSilencedAlerts(t *testing.T) {
	matching := func(value string) SilenceList {
		m, err := labels.NewMatcher(labels.MatchEqual, "cluster", value) // an external label
		require.NoError(t, err)
		return SilenceList{Receiver: "am", Silences: []ActiveSilence{{ID: "1", Matchers: []*labels.Matcher{m}, End: now.Add(time.Hour), Author: hostile, Comment: "upgrade"}}}
	}
	f := func(marked bool, lists ...SilenceList) string {
		t.Helper()
		s := newTestServer(t, exampleView(), Options{Silences: func(context.Context) []SilenceList { return lists }})
		body := request(s, "GET", "/").Body.String()
		if marked {
			require.Contains(t, body, `<span class="tag">silenced</span>`)
			require.Contains(t, body, "Silenced until 2026-01-02 04:04:05Z by ")
		} else {
			require.NotContains(t, body, `silenced</span>`)
		}
		require.NotContains(t, body, "<script>alert")
		return body
	}
	f(true, matching("east"))
	f(true, matching("east"), matching("east"))
	f(false, matching("west"))
	f(false, matching("east"), matching("west"))
	f(false, matching("east"), SilenceList{Receiver: "am2"})
	f(false)
	require.Contains(t, f(false, matching("east"), SilenceList{Receiver: "am2", Error: "refused " + hostile}), "Which alerts are silenced is not known: am2: refused ")
}

// Silences are read once for many readers, who do not wait long for an Alertmanager that hangs.
func TestSilencesAreReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		c := newSilences(func(ctx context.Context) []SilenceList {
			reads++
			<-ctx.Done()
			return []SilenceList{{Error: "timeout"}}
		})
		began := time.Now()
		for range 3 {
			require.Equal(t, "Alertmanager has not answered yet", c.newestLists(time.Now)[0].Error)
		}
		require.Equal(t, 3*silencesWait, time.Since(began))
		time.Sleep(silencesTime)
		require.Equal(t, "timeout", c.newestLists(time.Now)[0].Error)
		require.Equal(t, 1, reads)
		time.Sleep(silencesFresh)
		began = time.Now()
		c.newestLists(time.Now)
		synctest.Wait()
		require.Equal(t, 2, reads)
		require.Zero(t, time.Since(began), "what is known is recent enough")
		time.Sleep(silencesTime)
	})
}
