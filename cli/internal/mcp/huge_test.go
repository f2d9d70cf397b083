//go:build !race

package mcp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/redact"
	"crowsnest/web"
)

// A flood of alerts and gaps arrives in parts, and nothing of it is lost.
func TestHugeAnswers(t *testing.T) {
	set := demo(t)
	w := world{sources: healthy()}
	long := strings.Repeat("x", 16<<10)
	for i := range 60 {
		e := lost(set, episodes.Fingerprint(i+1), fmt.Sprintf("team-%d", i))
		e.Line = redact.Text(long)
		w.episodes = append(w.episodes, e)
		w.broken = append(w.broken, web.BrokenPack{Pack: fmt.Sprintf("pack-%d", i), Error: long})
		w.sources[0].Unread = append(w.sources[0].Unread, web.Unread{Path: fmt.Sprintf("/%d/%s", i, long), Reason: "x", Since: now})
	}
	c := connect(t, serve(t, w), nil)
	seen := map[string]bool{}
	in, parts := args{}, 0
	for {
		got := call[alertsOut](c, "alerts", in)
		require.Equal(t, 60, got.Total)
		require.NotEmpty(t, got.Seen.Omitted)
		require.Contains(t, got.Truncated[0], "from_logs.alerts[0].line: the first 4000 of 16384 bytes")
		require.Contains(t, got.Truncated[len(got.Truncated)-1], "crowsnest get episodes -o json")
		for _, a := range got.FromLogs.Alerts {
			seen[a.Fingerprint] = true
		}
		parts++
		if got.NextOffset == nil {
			break
		}
		require.Contains(t, got.Verdict, "next_offset")
		in["offset"] = *got.NextOffset
	}
	require.Len(t, seen, 60)
	require.Greater(t, parts, 4)
}
