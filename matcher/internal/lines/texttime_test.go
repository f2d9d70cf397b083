package lines

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/reftime"
)

var arrival = time.Date(2025, 11, 20, 12, 0, 0, 0, time.UTC)

func TestTextTime(t *testing.T) {
	f := func(line, want string) {
		t.Helper()
		got := ""
		if at, ok := TextTime([]byte(line), arrival); ok {
			got = at.Format(time.RFC3339Nano)
		}
		require.Equal(t, want, got, line)
	}
	// klog: the year is that of the reader's clock.
	f("I1120 10:00:00.123456       1 a.go:1] x", "2025-11-20T10:00:00.123456Z")
	f("E1121 12:00:00.000000 1 a.go:1] x", "2025-11-21T12:00:00Z")
	f("E1121 12:00:00.000001 1 a.go:1] x", "2024-11-21T12:00:00.000001Z")
	f("W0229 10:00:00.0 1 a.go:1] x", "2024-02-29T10:00:00Z")
	f("F1231 23:59:59.999999999 1 a.go:1] x", "2024-12-31T23:59:59.999999999Z")
	f("I1320 10:00:00.1 1 a.go:1] x", "")
	f("E0101 leaderelection.go:429] x", "")
	// JSON: klog in milliseconds, zap as a float or in ISO 8601, logrus, logstash.
	f(`{"ts":1763632800123.4567,"msg":"x"}`, "2025-11-20T10:00:00.1234567Z")
	f(`{"level":"info","ts":1763632800.123,"msg":"x"}`, "2025-11-20T10:00:00.123Z")
	f(`{"level":"info","ts":1.7636328e9}`, "2025-11-20T10:00:00Z")
	f(`{"ts":1763632800123456}`, "2025-11-20T10:00:00.123456Z")
	f(`{"ts":1763632800123456789}`, "2025-11-20T10:00:00.123456789Z")
	f(`{"ts":"2025-11-20T10:00:00.123+0100"}`, "2025-11-20T09:00:00.123Z")
	f(`{"a":{"ts":1},"b":["ts"],"time":"2025-11-20T10:00:00Z"}`, "2025-11-20T10:00:00Z")
	f(`{"time":"soon","@timestamp":"2025-11-20T10:00:00Z"}`, "2025-11-20T10:00:00Z")
	f(`  {"timestamp":"2025-11-20 10:00:00"}`, "2025-11-20T10:00:00Z")
	f(`{"ts":"x"}`, "")
	f(`{"ts":-5}`, "")
	f(`{"ts":0}`, "")
	f(`{"ts":1e400}`, "")
	// Stamps at the start.
	f("2025-11-20T10:00:00.123Z\tINFO\tx", "2025-11-20T10:00:00.123Z")
	f("2025-11-20T10:00:00+01:00 x", "2025-11-20T09:00:00Z")
	f("2025-11-20 10:00:00,123 x", "2025-11-20T10:00:00.123Z")
	f("2025/11/20 10:00:00 [INFO] x", "2025-11-20T10:00:00Z")
	f("[2025-11-20 10:00:00] x", "2025-11-20T10:00:00Z")
	f("2025-11-20 10:00:00", "2025-11-20T10:00:00Z")
	f("2025-11-20 10:00:00x", "")
	f("2025-11-31 10:00:00 x", "")
	f("2025-11-20 10:00:60 x", "2025-11-20T10:01:00Z")
	// In brackets.
	f("WARN[2025-12-02T10:00:00+05:30] x", "2025-12-02T04:30:00Z")
	f("INFO[0012] x", "")
	f(`10.0.0.1 - - [28/Apr/2025:09:14:22 +0000] "GET / HTTP/1.1" 500`, "2025-04-28T09:14:22Z")
	f(`[a] [28/Apr/2025:09:14:22 -0130] x`, "2025-04-28T10:44:22Z")
	f(`[31/Feb/2025:09:14:22 +0000] x`, "")
	f(`see [28/Apr] and [28/Apr/2025:09:14:22]`, "")
	// Talos: the kernel log of a node, as the API sends it and as talosctl prints it.
	f("user: warning: [2025-11-20T10:00:00.943230048Z]: [talos] service[etcd](Waiting): x", "2025-11-20T10:00:00.943230048Z")
	f("kern:    info: [2025-11-20T10:00:00Z]: x", "2025-11-20T10:00:00Z")
	f("10.20.0.4: daemon:  notice: [2025-11-20T10:00:00.5Z]: x", "2025-11-20T10:00:00.5Z")
	f("fd00::4: kern:     err: [2025-11-20T10:00:00Z]: x", "2025-11-20T10:00:00Z")
	f("warning: [2025-11-20T10:00:00Z]: x", "")
	f("a: b: c: d: [2025-11-20T10:00:00Z]: x", "")
	f("user: a warning: [2025-11-20T10:00:00Z]: x", "")
	f("user: : [2025-11-20T10:00:00Z]: x", "")
	f("user: warning: [2025-11-20T10:00:00Z x", "")
	f("user: warning: see [2025-11-20T10:00:00Z]: x", "")
	// syslog and journald.
	f("Nov 20 10:00:00 host kubelet[12]: x", "2025-11-20T10:00:00Z")
	f("Nov  2 10:00:00 host kubelet[12]: x", "2025-11-02T10:00:00Z")
	f("Dec 20 10:00:00 host kubelet[12]: x", "2024-12-20T10:00:00Z")
	f("Nox 20 10:00:00 host x", "")
	f("ovD 20 10:00:00 host x", "")
	// logfmt.
	f(`time="2025-11-20T10:00:00Z" level=info`, "2025-11-20T10:00:00Z")
	f(`level=info ts=2025-11-20T10:00:00.5Z msg=x`, "2025-11-20T10:00:00.5Z")
	f(`level=info ts=1763632800.25 msg=x`, "2025-11-20T10:00:00.25Z")
	f(`msg="ts=2025-11-20T10:00:00Z" starttime=2025-11-20T10:00:00Z`, "")
	f(`Waited time=5s then ts=2025-11-20T10:00:00Z`, "2025-11-20T10:00:00Z")
	f("", "")
	f("a line", "")
}

// FuzzStamp compares stamps with time.Parse.
func FuzzStamp(f *testing.F) {
	for _, s := range []string{"2025-11-20T10:00:00.123456789Z", "2025-11-20T10:00:00+01:30", "2024-02-29T23:59:60Z", "0000-01-01T00:00:00,1234567890123-24:00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, zoned := stampLen([]byte(s))
		require.Equal(t, refWhole.MatchString(s), zoned && n == len(s))
		if !zoned || n != len(s) {
			return
		}
		want, ok := reftime.Parse(s)
		got, gotOK := parseStamp([]byte(s))
		require.Equal(t, ok, gotOK)
		if ok {
			require.Equal(t, want, got)
		}
	})
}
