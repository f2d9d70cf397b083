package discover

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMask(t *testing.T) {
	var buf []span
	f := func(text, want string) {
		t.Helper()
		require.Equal(t, want, string(appendMasked(nil, &buf, text)))
	}
	f("", "")
	f("  two   words ", "two words")
	f("took 12 ms, then 3.5s and 1m30s", "took <num> ms, then <dur> and <dur>")
	f("at 2026-01-02T03:04:05.1Z or 10:00:00", "at <time> or <time>")
	f("dial tcp 10.0.0.1:443: connect: connection refused", "dial tcp <ip>: connect: connection refused")
	f("Get https://a.b/c?d=e: EOF", "Get <url>: EOF")
	f("id 0b0a1c2d-6a7c-4a55-8d3e-7c9a1f2e3d4c of web-7f9c6d5b4-x2v9p", "id <id> of <id>")
	f(`secrets "web-tls" not found, nor 'other'`, `secrets "<name>" not found, nor '<name>'`)
	f(`"a whole sentence" stays`, `"a whole sentence" stays`)
	f("can't open MachineDeployment's door", "can't open MachineDeployment's door")
	f("lease kube-system/shop of /var/lib/x and a/b/c", "lease <obj> of <path> and <path>")
	f("*v1.Node is of machines.cluster.x-k8s.io, apps/v1, Kind=Deployment", "<type> is of <id>, <obj>, Kind=<type>")
	f("x509: in v1beta1, not in v7", "x509: in v1beta1, not in v7")
	f("client-side and my-long-name", "client-side and <name>")
	f("system:serviceaccount:ns:name cannot", "<name> cannot")
	f("a: 1, 2, 3", "a: <num>")
	f("password=<redacted> is wrong", "password=<redacted> is wrong")
	f(`\"x\" and 100%`, `"<name>" and <num>`)
	f("0 of 5", "0 of <num>")
}

func TestJudge(t *testing.T) {
	f := func(text string, want weight, ends patience) {
		t.Helper()
		var j judgement
		j.judge([]byte(text))
		require.Equal(t, want, j.weight, text)
		require.Equal(t, ends, j.patience, text)
	}
	f("", 0, 0)
	f("all is well", 0, 0)
	f("Failed to open", ordinary, 0)
	f("FAILED", ordinary, 0)
	f("it timed out", ordinary, 0)
	f("timed, out", 0, 0)
	f("not-ready", soft, waits)
	f("OOMKilled", severe, 0)
	f("DeadlineExceeded", ordinary, 0)
	f("no errors", 0, 0)
	f("no space", severe, 0)
	f("error: <nil>", 0, 0)
	f("failures=0", 0, 0)
	f("failures=0.5", ordinary, 0)
	f("error=false,", 0, 0)
	f("the object has been modified", 0, transient)
	f("failed, will retry", ordinary, retries)
	f("waiting, will retry", soft, waits|retries)
	f("Waiting for next event", 0, 0)
	f("conflict, retries", ordinary, 0)
	f("too long, too many", soft, 0)
	f("clearing the previous error", 0, 0)
	f("failedtoopen", 0, 0)
	f("a-very-long-word-"+"errorerrorerrorerrorerrorerrorerror", 0, 0)
}

func TestAlertName(t *testing.T) {
	taken := map[string]bool{}
	f := func(text, want string) {
		t.Helper()
		require.Equal(t, want, AlertName(text, taken))
	}
	f("failed to open", "FailedToOpen")
	f("failed to open", "FailedToOpen2")
	f("can't open 3 doors", "CantOpen3Doors")
	f("3 doors", "Doors")
	f("", "UnknownComplaint")
	f("ö", "UnknownComplaint2")
	f("one two three four five six seven eight nine ten eleven twelve", "OneTwoThreeFourFiveSixSevenEightNineTenEleven")
}
