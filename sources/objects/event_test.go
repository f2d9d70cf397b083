package objects

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/internal/text"
	"crowsnest/matcher"
)

func TestEventLine(t *testing.T) {
	f := func(event, want string) {
		t.Helper()
		e, err := readEvent([]byte(event))
		require.NoError(t, err)
		line, truncated := e.line()
		require.Equal(t, want, line)
		require.False(t, truncated)
	}
	// As the recorder of client-go writes them in the old form, read as events.k8s.io/v1.
	f(`{"metadata":{"name":"n1.17f","namespace":"default"},"type":"Normal","reason":"NodeNotReady","regarding":{"kind":"Node","name":"n1","uid":"n1"},
		"note":"Node n1 status is now: NodeNotReady","deprecatedSource":{"component":"node-controller"},"deprecatedCount":2,"eventTime":null,"series":null}`,
		`msg="event" type=Normal reason=NodeNotReady kind=Node object=n1 name=n1 node=n1 uid=n1 reporter=node-controller count=2 message="Node n1 status is now: NodeNotReady"`)
	f(`{"metadata":{"namespace":"shop"},"type":"Warning","reason":"FailedScheduling","regarding":{"kind":"Pod","namespace":"shop","name":"web-0","uid":"u-1"},
		"note":"0/3 nodes are available: 3 Insufficient cpu.","reportingController":"default-scheduler","series":{"count":7,"lastObservedTime":"2026-11-20T10:00:00.000001Z"}}`,
		`msg="event" type=Warning reason=FailedScheduling kind=Pod object=shop/web-0 name=web-0 pod=web-0 uid=u-1 reporter=default-scheduler count=7 message="0/3 nodes are available: 3 Insufficient cpu."`)
	f(`{}`, `msg="event" type="" reason="" kind="" object="" name="" uid="" reporter="" count=1 message=""`)
}

func TestEventTime(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	f := func(event, want string) {
		t.Helper()
		e, err := readEvent([]byte(event))
		require.NoError(t, err)
		require.Equal(t, want, e.newestTime(now).UTC().Format("15:04:05.999999"))
	}
	f(`{"eventTime":"2026-11-20T09:00:00.123456Z"}`, "09:00:00.123456")
	f(`{"eventTime":"2026-11-20T09:00:00.123456Z","series":{"lastObservedTime":"2026-11-20T09:30:00.000000Z"}}`, "09:30:00")
	f(`{"eventTime":null,"deprecatedFirstTimestamp":"2026-11-20T08:00:00Z","deprecatedLastTimestamp":"2026-11-20T09:10:00Z"}`, "09:10:00")
	f(`{"metadata":{"creationTimestamp":"2026-11-20T09:20:00Z"}}`, "09:20:00")
	f(`{"eventTime":"2036-11-20T09:00:00.123456Z"}`, "10:00:00")
	f(`{}`, "10:00:00")
}

// TestEventHostile: no text of an Event forges a field or a line, or is too long, and rules
// trust the namespace of the Event and not that of the object.
func TestEventHostile(t *testing.T) {
	hostile := "x\" reason=Forged type=Forged\nmsg=\"event\" reason=Forged count=9 \\"
	b, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"namespace": "tenant"}, "type": hostile, "reason": "Real", "note": hostile + strings.Repeat("é", 10_000),
		"regarding":           map[string]any{"kind": "Pod", "namespace": "kube-system", "name": hostile, "uid": hostile},
		"reportingController": strings.Repeat("a", 10_000),
	})
	require.NoError(t, err)
	e, err := readEvent(b)
	require.NoError(t, err)
	line, truncated := e.line()
	require.True(t, truncated)
	require.Less(t, len(line), 2*maxNote)
	require.NotContains(t, line, "\n")
	require.Equal(t, 1, strings.Count(line, `msg="`))
	require.Equal(t, "tenant", e.namespace())
	var fields matcher.FieldReader
	fields.Reset([]byte(line))
	for name, want := range map[string]string{
		"msg": "event", "type": hostile, "reason": "Real", "kind": "Pod", "object": "kube-system/" + hostile, "name": hostile, "pod": hostile,
		"uid": hostile, "count": "1", "reporter": text.Shorten(strings.Repeat("a", 300), maxValue), "message": text.Shorten(hostile+strings.Repeat("é", 10_000), maxNote),
	} {
		got, ok := fields.Lookup(name)
		require.True(t, ok, name)
		require.Equal(t, want, string(got), name)
	}
}

// An Event has the same line in both forms.
func TestRecordedEvent(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	f := func(in string) {
		t.Helper()
		namespace, line, at, err := RecordedEvent([]byte(in), now)
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
		_, _, _, err := RecordedEvent([]byte(bad), now)
		require.ErrorContains(t, err, "Event", bad)
	}
}
