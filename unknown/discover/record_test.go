package discover

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/redact"
)

// What a client ends is no failure of the program; a deadline, and what the program itself
// asked for, is.
func TestClientLeft(t *testing.T) {
	f := func(want bool, lines ...string) {
		t.Helper()
		for _, line := range lines {
			var r ComplaintReader
			_, ok := r.Read(line, nil)
			require.Equal(t, want, ok, line)
		}
	}
	f(false,
		`time="2026-03-02T10:00:00Z" level=error msg="Error during subscribe websocket: close sent"`,
		`2026/03/02 10:00:00 http: proxy error: context canceled`,
		`E0302 10:00:00.000000       1 proxy.go:7] "Error while proxying the request" err="write tcp 10.0.0.1:8080->10.0.0.9:51002: write: broken pipe"`,
		`E0302 10:00:00.000000       1 tunnel.go:7] "Cannot copy" err="io: read/write on closed pipe"`,
		`E0302 10:00:00.000000       1 tunnel.go:7] error while proxying request: read tcp 10.0.0.1:8080->10.0.0.9:51002: read: connection reset by peer`,
		`{"level":"error","ts":"2026-03-02T10:00:00Z","msg":"error streaming","error":"client disconnected"}`,
		`time="2026-03-02T10:00:00Z" level=error msg="read failed" error="websocket: close 1001 (going away)"`,
		`E0302 10:00:00.000000       1 runtime.go:78] Observed a panic: &errors.errorString{s:"killing connection/stream because serving request timed out and response had been started"}`,
	)
	f(true,
		`2026/03/02 10:00:00 http: proxy error: context deadline exceeded`,
		`E0302 10:00:00.000000       1 lock.go:7] "Cannot renew the lease" err="Put \"https://10.0.0.1/lease\": net/http: request canceled (Client.Timeout exceeded while awaiting headers)"`,
		`E0302 10:00:00.000000       1 proxy.go:7] "Cannot pass on the request" err="dial tcp 10.0.0.2:80: connect: connection reset by peer"`,
		`E0302 10:00:00.000000       1 push.go:7] "Cannot push" err="write tcp 10.0.0.1:51002->10.0.0.9:443: write: broken pipe"`,
		`E0302 10:00:00.000000       1 sync.go:7] "Cannot sync" err="context canceled while the disk failed"`,
		`time="2026-03-02T10:00:00Z" level=fatal msg="cannot go on: context canceled"`,
		`time="2026-03-02T10:00:00Z" level=error msg="read failed" error="websocket: close 1006 (abnormal closure): unexpected EOF"`,
	)
}

// All numbers have one placeholder, but "0 errors" is still no complaint.
func TestZeroIsANumber(t *testing.T) {
	var r ComplaintReader
	keys := map[uint64]bool{}
	for _, n := range []int{0, 7, 12} {
		c, ok := r.Read(fmt.Sprintf(`E0302 10:00:00.000000       1 probe.go:3] "Probe failed" err="failure %d of the check"`, n), nil)
		require.True(t, ok)
		_, err := r.Template(nil)
		require.EqualValues(t, "failure <num> of the check", err)
		keys[c.Key] = true
	}
	require.Len(t, keys, 1)
	_, ok := r.Read("2026-03-02 10:00:00 sync finished with failures: 0", nil)
	require.False(t, ok)
}

// The cause stands at the end of a long error, and below the first line of a record.
func TestTemplateHasTheCause(t *testing.T) {
	var r ComplaintReader
	template := func(line string) string {
		_, ok := r.Read(line, nil)
		require.True(t, ok, line)
		message, err := r.Template(nil)
		return string(message + "|" + err)
	}
	wrapped := strings.Repeat("cannot apply the step: ", 200)
	for _, line := range []string{
		`E0302 10:00:00.000000       1 c.go:3] "Reconciler error" err="` + wrapped + `the disk is full"`,
		`{"level":"error","msg":"Reconciler error","error":"` + wrapped + `the disk is full"}`,
		`E0302 10:00:00.000000       1 c.go:3] ` + wrapped + `the disk is full`,
	} {
		got := template(line)
		require.Contains(t, got, "cannot apply the step: cannot")
		require.True(t, strings.HasSuffix(strings.TrimSuffix(got, "|"), "the disk is full"), got)
		require.Less(t, len(got), 2000)
	}
	require.Contains(t, template("2026-03-02 10:00:00 ERROR Cannot store the row\njava.lang.IllegalStateException: no row\n\tat a.b.C.d(C.java:7)\nCaused by: java.io.IOException: the disk is full\n\tat a.b.C.e(C.java:9)\n\t... 3 more"), "|<name>: the disk is full")
	require.Contains(t, template("ERROR: cannot serve\nTraceback (most recent call last):\n  File \"/app/a.py\", line 7, in run\n    self.step()\nOSError: the disk is full"), "|OSError: the disk is full")
	require.Contains(t, template("E0302 10:00:00.000000       1 c.go:3] \"Reconciler error\" err=<\n\tcannot apply\n\tthe disk is full\n > name=\"a\""), "|cannot apply / the disk is full")
}

func TestEssence(t *testing.T) {
	require.Equal(t, "one line", EventText("one line\n"))
	require.Equal(t, "panic: the map is nil / [signal SIGSEGV: segmentation violation code=0x1]",
		EventText("panic: the map is nil\n[signal SIGSEGV: segmentation violation code=0x1]\n\ngoroutine 1 [running]:\nmain.(*T).run(0xc0001, 0x2)\n\t/src/main.go:17 +0x1d\nmain.main()\n\t/src/main.go:9 +0x2c"))
	require.Equal(t, "x failed / Traceback (most recent call last): / OSError: full",
		EventText("x failed\nTraceback (most recent call last):\n  File \"/app/a.py\", line 7, in run\n    self.step()\nOSError: full"))
}

func TestEnds(t *testing.T) {
	var r ComplaintReader
	f := func(want bool, line string) {
		t.Helper()
		c, ok := r.Read(line, nil)
		require.True(t, ok, line)
		require.Equal(t, want, c.Ends, line)
	}
	f(true, "panic: the map is nil\n\ngoroutine 1 [running]:")
	f(true, `time="2026-03-02T10:00:00Z" level=fatal msg="cannot listen"`)
	f(true, `{"level":"error","ts":"2026-03-02T10:00:00Z","msg":"problem running manager","error":"leader election lost"}`)
	f(false, `{"level":"error","ts":"2026-03-02T10:00:00Z","msg":"cannot list the nodes"}`)
}

// A line without an object names a thing if it can be distinguished from a number.
func TestThing(t *testing.T) {
	var r ComplaintReader
	f := func(want, line string) {
		t.Helper()
		c, ok := r.Read(line, nil)
		require.True(t, ok, line)
		require.Equal(t, redact.Text(want), c.FirstName, line)
	}
	f("pvc-7c1f0d2e", "E0302 10:00:00.000000       1 c.go:3] volume pvc-7c1f0d2e is still attached, cannot detach")
	f("/dev/sdb", "E0302 10:00:00.000000       1 c.go:3] lsblk /dev/sdb failed: exit status 32")
	f("", "E0302 10:00:00.000000       1 c.go:3] request 7c1f0d2e-11aa failed")
}
