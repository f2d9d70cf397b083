package show

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 119 * time.Second: "119s", 2 * time.Minute: "2m", 125 * time.Second: "2m5s", 10 * time.Minute: "10m",
		179 * time.Minute: "179m", 3 * time.Hour: "3h", 200 * time.Minute: "3h20m", 47 * time.Hour: "47h", 50 * time.Hour: "2d2h", 400 * time.Hour: "16d",
	} {
		require.Equal(t, want, ageText(d))
	}
}

// The texts of a daemon are those of its logs: nothing of them reaches the terminal as a
// command.
func TestListsAreSanitised(t *testing.T) {
	const evil = `\u001b[31mx\u0007`
	style := ListStyle{Wide: true, Now: time.Unix(0, 0)}
	for _, c := range []struct {
		list List
		data string
	}{
		{OpenAlerts, `{"episodes":[{"alert":"A` + evil + `","state":"firing","labels":{"pod":"` + evil + `"},"annotations":{"summary":"` + evil + `"},"line":"` + evil + `","cause":{"alert":"` + evil + `"}}]}`},
		{EpisodeTables, `{"episodes":[{"alert":"A` + evil + `","state":"firing","held":true,"waits":[{"part":"` + evil + `","sources":["` + evil + `"]}],"labels":{"pod":"` + evil + `"},"line":"` + evil + `"}]}`},
		{RuleTables, `{"groups":[{"name":"` + evil + `","rules":[{"name":"` + evil + `","from":"` + evil + `","waits":"` + evil + `"}]}]}`},
		{SourceTables, `{"sources":[{"name":"` + evil + `","lastError":"` + evil + `"}],"endpoints":[{"sink":"` + evil + `","lastError":"` + evil + `"}]}`},
		{UnknownFailures, `{"failures":[{"component":"` + evil + `","pattern":"` + evil + `","labels":{"pod":"` + evil + `"}}]}`},
	} {
		var b strings.Builder
		require.NoError(t, c.list(&b, []byte(c.data), style))
		require.NotContains(t, b.String(), "\x1b")
		require.NotContains(t, b.String(), "\x07")
		require.Contains(t, b.String(), "x")
	}
}

// What an alert of a pending failure says is not stated as true.
func TestOpenAlerts(t *testing.T) {
	var b strings.Builder
	require.NoError(t, OpenAlerts(&b, []byte(`{"episodes":[
		{"fingerprint":"1","alert":"A","state":"pending","held":true,"waits":[{"part":"clear","streams":"{}"}],"annotations":{"summary":"is down"}},
		{"fingerprint":"2","alert":"B","state":"unwatched"}]}`), ListStyle{}))
	require.Contains(t, b.String(), "if it fires: is down")
	require.Contains(t, b.String(), "pending (on hold: no source for clear)")
	require.Equal(t, 2, strings.Count(b.String(), "\n")) // the head and one alert
}
