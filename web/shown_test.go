package web

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
)

// A line of a log does not turn the text around it, and its lines stay lines.
func TestLinesAreTame(t *testing.T) {
	const hostile, tamed = "of \u202etxt.exe\x1b[31m\nnext\u200b line", "of txt.exe\nnext line"
	view := exampleView()
	all := view.Episodes()
	for i := range all {
		all[i].Line, all[i].FirstLine = hostile, hostile
		all[i].Annotations = maps.Clone(all[i].Annotations)
		if all[i].Annotations == nil {
			all[i].Annotations = map[string]string{}
		}
		all[i].Annotations["line"] = hostile
	}
	view.Episodes = func() []episodes.Episode { return all }
	view.Timeline = func(episodes.Fingerprint) (episodes.Timeline, bool) {
		return episodes.Timeline{Episode: all[0], Events: []episodes.Event{{Time: all[0].StartsAt, Kind: episodes.EventOpened, Line: hostile}}}, true
	}
	s := newTestServer(t, view, Options{})
	require.Contains(t, request(s, "GET", "/").Body.String(), tamed)
	print := all[0].Fingerprint.String()
	for _, path := range []string{"/", "/episodes/" + print, "/api/v1/alerts", "/api/v1/episodes", "/api/v1/episodes/" + print, "/api/v1/episodes/" + print + "/timeline"} {
		body := request(s, "GET", path).Body.String()
		require.Contains(t, body, "txt.exe", path)
		require.NotContains(t, body, "\u202e", path)
		require.NotContains(t, body, "\u200b", path)
		require.NotContains(t, body, "\x1b", path)
		require.NotContains(t, body, `\u001b`, path)
	}
	require.Equal(t, hostile, all[0].Annotations["line"], "what others hold does not change")
}
