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
	f := func(at time.Duration, summary string, says []string, unread ...sources.UnreadLog) {
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
	hung := sources.UnreadLog{Path: "/logs/a", Name: "ns/pod/ctr", Reason: "reading it hangs", Since: start, Holds: true}
	link := sources.UnreadLog{Path: "/logs/b\n", Reason: "it is a link", Since: start}
	late := sources.UnreadLog{Path: "/logs/c", Since: start.Add(time.Minute)}
	f(5*time.Minute-1, "", nil, hung, link)
	f(5*time.Minute, "2 logs of source kubelet are not read", []string{`ns/pod/ctr ("/logs/a": reading it hangs`, `"/logs/b\n": it is a link`}, hung, link, late)
	f(5*time.Minute, "The log of ns/pod/ctr is not read", nil, hung, late)
	f(5*time.Minute, "A log of source kubelet is not read", nil, link)
	var many []sources.UnreadLog
	for i := range 30 {
		many = append(many, sources.UnreadLog{Path: fmt.Sprint("/logs/", i), Since: start})
	}
	f(time.Hour, "30 logs of source kubelet are not read", []string{`"/logs/4"`}, many...)
}

// The heartbeat stays while some logs are not read, and says how many are.
func TestCoverageOfUnreadLogs(t *testing.T) {
	w := newWatch(t)
	part := up("kubelet")
	part.Logs, part.Unread = 41, []sources.UnreadLog{{Path: "/logs/a", Reason: "an error", Since: w.now.Add(time.Minute), Holds: true}}
	require.Equal(t, []string{"firing CrowsnestHeartbeat"}, w.pass(5*time.Minute, part))
	require.Equal(t, "full: kubelet", w.coverage(), "not for long")
	require.Equal(t, []string{"firing CrowsnestHeartbeat", "firing CrowsnestLogsUnread kubelet"}, w.pass(2*time.Minute, part))
	require.Equal(t, "partial: kubelet (40 of 41 logs)", w.coverage())
	require.Equal(t, []string{"firing CrowsnestHeartbeat", "resolved CrowsnestLogsUnread kubelet"}, w.pass(time.Second, up("kubelet")))
	require.Equal(t, "full: kubelet", w.coverage())
}
