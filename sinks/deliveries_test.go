package sinks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
)

func TestDeliveries(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := NewDeliveries()
	record := func(minute int, endpoint string, resolved bool, code int, reason string) {
		l.Record([]Message{{Episode: episodes.Episode{Fingerprint: 1}, Resolved: resolved}},
			Delivery{Endpoint: endpoint, Time: begin.Add(time.Duration(minute) * time.Minute), Code: code, Error: reason})
	}
	f := func(want ...string) {
		t.Helper()
		var got []string
		for _, d := range l.Answers(1) {
			got = append(got, fmt.Sprintf("%s %t %d %s %d-%dx%d", d.Endpoint, d.Resolved, d.Code, d.Error, d.Time.Minute(), d.LastAt.Minute(), d.Times))
		}
		require.Equal(t, want, got)
	}
	f()
	record(1, "a", false, 200, "")
	record(1, "b", false, 0, "refused")
	record(2, "a", false, 200, "")
	record(3, "b", false, 0, "refused")
	record(4, "b", false, 200, "")
	record(5, "a", true, 200, "")
	record(6, "a", true, 200, "")
	f("a false 200  1-2x2", "b false 0 refused 1-3x2", "b false 200  4-4x1", "a true 200  5-6x2")

	for i := range 50 {
		record(10+i, "a", false, 500+i, strings.Repeat("x", 10_000))
	}
	got := l.Answers(1)
	require.Len(t, got, answersKept)
	require.Equal(t, "a", got[0].Endpoint)
	require.Equal(t, "refused", got[1].Error)
	require.Equal(t, 549, got[answersKept-1].Code)
	require.Len(t, got[answersKept-1].Error, maxAnswerReason)
	require.Empty(t, l.Answers(2))
}

func TestNotified(t *testing.T) {
	fired := time.Unix(1000, 0)
	d := func(endpoint string, at int64, resolved bool, err string) Delivery {
		return Delivery{Endpoint: endpoint, Time: time.Unix(at, 0), LastAt: time.Unix(at+5, 0), Times: 3, Resolved: resolved, Error: err}
	}
	f := func(want int, all ...Delivery) {
		t.Helper()
		l := NewDeliveries()
		l.log.Add(1, all)
		require.Equal(t, want, l.Notified(1, fired))
	}
	f(0)
	f(0, d("a", 900, false, ""))
	f(1, d("a", 998, false, ""))
	f(2, d("a", 1001, false, ""), d("a", 1010, true, ""))
	f(2, d("a", 1001, false, ""), d("a", 1010, true, ""), d("a", 1020, false, ""))
	f(3, d("a", 1001, false, ""), d("b", 1002, false, "refused"), d("b", 1003, false, ""), d("b", 1010, true, ""))
}
