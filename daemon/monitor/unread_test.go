package monitor

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/sources"
)

// A log that is not read for long is a warning that names it and says why.
func TestUnreadAlert(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f := func(at time.Duration, summary string, says []string, unread ...sources.Unread) {
		t.Helper()
		got := unreadAlert(start.Add(at), 5*time.Minute, sources.Status{Name: "kubelet", Unread: unread})
		if summary == "" {
			require.Empty(t, got)
			return
		}
		require.Len(t, got, 1)
		require.Equal(t, "warning", got[0].Labels["severity"])
		require.Equal(t, summary, got[0].Annotations["summary"])
		require.Equal(t, start, got[0].StartsAt)
		for _, s := range says {
			require.Contains(t, got[0].Annotations["description"], s)
		}
	}
	hung := sources.Unread{Path: "/logs/a", Name: "ns/pod/ctr", Why: "reading it hangs", Since: start, Holds: true}
	link := sources.Unread{Path: "/logs/b\n", Why: "it is a link", Since: start}
	late := sources.Unread{Path: "/logs/c", Since: start.Add(time.Minute)}
	f(5*time.Minute-1, "", nil, hung, link)
	f(5*time.Minute, "2 logs of source kubelet are not read", []string{`ns/pod/ctr ("/logs/a": reading it hangs`, `"/logs/b\n": it is a link`}, hung, link, late)
	f(5*time.Minute, "The log of ns/pod/ctr is not read", nil, hung, late)
	f(5*time.Minute, "A log of source kubelet is not read", nil, link)
	var many []sources.Unread
	for i := range 30 {
		many = append(many, sources.Unread{Path: fmt.Sprint("/logs/", i), Since: start})
	}
	f(time.Hour, "30 logs of source kubelet are not read", []string{`"/logs/4"`}, many...)
}

// The heartbeat stays while some logs are not read, and says how many are.
func TestCoverageOfUnreadLogs(t *testing.T) {
	w := newWatch(t)
	part := up("kubelet")
	part.Logs, part.Unread = 41, []sources.Unread{{Path: "/logs/a", Why: "an error", Since: w.now.Add(time.Minute), Holds: true}}
	require.Equal(t, []string{"firing CrowsnestHeartbeat"}, w.pass(5*time.Minute, part))
	require.Equal(t, "full: kubelet", w.coverage(), "not for long")
	require.Equal(t, []string{"firing CrowsnestHeartbeat", "firing CrowsnestLogsUnread kubelet"}, w.pass(2*time.Minute, part))
	require.Equal(t, "partial: kubelet (40 of 41 logs)", w.coverage())
	require.Equal(t, []string{"firing CrowsnestHeartbeat", "resolved CrowsnestLogsUnread kubelet"}, w.pass(time.Second, up("kubelet")))
	require.Equal(t, "full: kubelet", w.coverage())
}
