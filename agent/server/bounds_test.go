package server

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/agent/wire"
)

// TestBoundsOfRequests sends input at and beyond each bound: refusals are counted, and
// no counter or time leaves its range.
func TestBoundsOfRequests(t *testing.T) {
	b := newBench(t, Config{})
	f := func(method, path, body string, code int) string {
		t.Helper()
		before := b.s.Stats().RefusedMessages[refusedMalformed] + b.s.Stats().RefusedMessages[refusedSize]
		w := httptest.NewRecorder()
		b.s.Handler(b.p).ServeHTTP(w, httptest.NewRequest(method, path, bytes.NewReader([]byte(body))))
		require.Equal(t, code, w.Code, w.Body)
		after := b.s.Stats().RefusedMessages[refusedMalformed] + b.s.Stats().RefusedMessages[refusedSize]
		require.Equal(t, code == http.StatusBadRequest || code == http.StatusRequestEntityTooLarge, after > before, "refusals are counted")
		return w.Body.String()
	}
	require.Equal(t, "taken 0 saved 0", b.say(wire.Message{OldestSequence: 1}))

	// Times: watermarks and conditions from the far future are clamped.
	late := time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
	b.say(wire.Message{OldestSequence: 1, SentAt: late, Watermark: late})
	require.Equal(t, b.now, b.s.Status().Watermark)
	report := func(count string) string {
		return `{"node":"n1","instance":"i1","conditions":[{"alert":"CrowsnestLoss","severity":"warning","since":"9999-12-31T23:59:59Z","last":"9999-12-31T23:59:59Z","count":` + count + `}]}`
	}
	for range 20 {
		f("POST", wire.ReportPath, report("1000000000000"), http.StatusOK)
		f("POST", wire.ReportPath, report("0"), http.StatusOK)
	}
	c := b.s.Status().Conditions
	require.Len(t, c, 1)
	require.Equal(t, b.now, c[0].Since)
	require.Equal(t, b.now, c[0].LastSeen)
	require.NotEmpty(t, b.s.Positions(), "such a time is saved")

	// Counts: a sum stops at the maximum.
	b.s.withLock(func() { b.s.stats.Losses = math.MaxInt64 - 5 })
	f("POST", wire.ReportPath, report("10"), http.StatusOK)
	require.Equal(t, int64(math.MaxInt64), b.s.Stats().Losses)
	for _, count := range []string{"-1", "1000000000001", "9223372036854775807", "9223372036854775808", "1e300", `"1"`, "[1]"} {
		f("POST", wire.ReportPath, report(count), http.StatusBadRequest)
	}

	// A duplicate condition counts once.
	b.s.withLock(func() { b.s.stats.Losses = 0 })
	one := `{"alert":"CrowsnestOther","severity":"info","since":"2026-01-01T00:00:00Z","count":7}`
	f("POST", wire.ReportPath, fmt.Sprintf(`{"node":"n1","instance":"i1","conditions":[%s,%s]}`, one, one), http.StatusOK)
	require.Equal(t, int64(7), b.s.Stats().Losses)

	// Sizes.
	blank := strings.Repeat(" ", wire.MaxReport-len(report("1")))
	f("POST", wire.ReportPath, report("1")+blank, http.StatusOK)
	f("POST", wire.ReportPath, report("1")+blank+" ", http.StatusRequestEntityTooLarge)
	f("POST", wire.ReportPath, strings.Repeat("[", wire.MaxReport), http.StatusBadRequest)
	f("DELETE", wire.NodePath+strings.Repeat("n", wire.MaxName), "", http.StatusForbidden)
	f("DELETE", wire.NodePath+strings.Repeat("n", wire.MaxName+1), "", http.StatusBadRequest)

	// Numbers of batches: the highest one does not block the next instance.
	require.Equal(t, "taken 4611686018427387903 saved 0", b.say(wire.Message{Sequence: 1 << 62, OldestSequence: 1 << 62}))
	require.Equal(t, "taken 4611686018427387904 saved 0", b.say(wire.Message{Sequence: 1 << 62, OldestSequence: 1 << 62, Payload: b.payload(1)}))
	require.Contains(t, b.say(wire.Message{Sequence: 1<<62 + 1, OldestSequence: 1}), "400 read message: no process has sent")
	require.Equal(t, "taken 0 saved 0", b.say(wire.Message{Instance: "i2", EarlierInstances: []string{"i1"}, OldestSequence: 1}))
}
