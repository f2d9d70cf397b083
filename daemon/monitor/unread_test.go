package monitor

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/sources"
)

// A log that is not read raises an alert after a minute: critical if it may be read later,
// a warning if it is refused for good.
func TestUnreadAlert(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f := func(at time.Duration, severity string, says []string, unread ...sources.Unread) {
		t.Helper()
		got := unreadAlert(start.Add(at), sources.Status{Name: "kubelet", Unread: unread})
		if severity == "" {
			require.Empty(t, got)
			return
		}
		require.Len(t, got, 1)
		require.Equal(t, severity, got[0].Labels["severity"])
		for _, s := range says {
			require.Contains(t, got[0].Annotations["description"], s)
		}
	}
	hung := sources.Unread{Path: "/logs/a", Why: "a read of it does not return", Since: start, Holds: true}
	link := sources.Unread{Path: "/logs/b\n", Why: "it is a link", Since: start}
	f(59*time.Second, "", nil, hung, link)
	f(time.Minute, "critical", []string{"2 logs", `"/logs/a": a read of it`, `"/logs/b\n": it is a link`}, hung, link)
	f(time.Minute, "warning", []string{"1 logs"}, link)
	var many []sources.Unread
	for i := range 30 {
		many = append(many, sources.Unread{Path: fmt.Sprint("/logs/", i), Since: start})
	}
	f(time.Hour, "warning", []string{"30 logs", `"/logs/4"`}, many...)
}
