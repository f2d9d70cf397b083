package events

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An Event has the same line in both forms.
func TestRecorded(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	f := func(in string) {
		t.Helper()
		namespace, line, at, err := Recorded([]byte(in), now)
		require.NoError(t, err)
		require.Equal(t, "shop", namespace)
		require.Equal(t, `msg="event" type=Warning reason=BackOff kind=Pod object=shop/web-0 name=web-0 pod=web-0 uid=u-1 reporter=kubelet count=7 message="Back-off restarting"`, line)
		require.Equal(t, now.Add(-time.Hour), at)
	}
	f(`{"kind":"Event","apiVersion":"v1","metadata":{"namespace":"shop"},"type":"Warning","reason":"BackOff","involvedObject":{"kind":"Pod","namespace":"shop","name":"web-0","uid":"u-1"},
		"message":"Back-off restarting","source":{"component":"kubelet","host":"n1"},"firstTimestamp":"2026-11-20T08:00:00Z","lastTimestamp":"2026-11-20T09:00:00Z","count":7,"eventTime":null,"reportingComponent":""}`)
	f(`{"kind":"Event","apiVersion":"events.k8s.io/v1","metadata":{"namespace":"shop"},"type":"Warning","reason":"BackOff","regarding":{"kind":"Pod","namespace":"shop","name":"web-0","uid":"u-1"},
		"note":"Back-off restarting","reportingController":"kubelet","series":{"count":7,"lastObservedTime":"2026-11-20T09:00:00.000000Z"},"eventTime":"2026-11-20T08:00:00.000000Z"}`)
	for _, bad := range []string{`[]`, `{"involvedObject":3}`, `{"count":"many"}`} {
		_, _, _, err := Recorded([]byte(bad), now)
		require.ErrorContains(t, err, "Event", bad)
	}
}
