package discover

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMask(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		require.Equal(t, want, string(maskText(text)))
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
	f := func(component, line, want string) {
		t.Helper()
		p := Propose(line)[0]
		require.Equal(t, want, AlertName(component, &p, taken))
	}
	f("", "failed to open doors", "OpenDoorsFailed")
	f("", "failed to open doors", "OpenDoorsFailed2")
	f("", "can't open 3 doors", "OpenFailed")
	f("LonghornManager", `time="2026-02-12T08:15:14Z" level=error msg="Failed to sync Longhorn engine" controller=longhorn-engine error="engine is not ready yet" engine=longhorn-system/data-e-0`, "LonghornManagerEngineNotReady")
	f("Shop", `E0101 10:00:00.0 1 a.go:1] "Reconciler error" err="disk is locked by another node" Volume="shop/a"`, "ShopVolumeDiskLockedAnotherNode")
	f("Shop", `E0101 10:00:00.0 1 a.go:1] "Sync failed" err="quota of tenant is exhausted" Volume="shop/a"`, "ShopVolumeQuotaTenantExhausted")
	f("", "one two three four five six seven eight nine ten eleven twelve is broken", "OneTwoThreeFourFiveSixSevenEightNineTenEleven")
}

func TestComponentOf(t *testing.T) {
	f := func(labels map[string]string, want string) {
		t.Helper()
		require.Equal(t, want, ComponentOf(labels))
	}
	f(map[string]string{"container": "longhorn-manager", "namespace": "x"}, "LonghornManager")
	f(map[string]string{"container": "manager", "namespace": "capi-system"}, "Capi")
	f(map[string]string{"container": "manager"}, "")
	f(map[string]string{"unit": "k3s.service", "job": "journal"}, "K3s")
	f(map[string]string{"identifier": "kernel"}, "Kernel")
	f(nil, "")
}

// What differs from line to line is no key.
func TestVolatile(t *testing.T) {
	for _, value := range []string{
		"10.0.0.1:43210", "10.0.0.1", "2026-02-12T08:15:14Z", "1m30s", "42", "0b5d7c1e-0000-4000-8000-000000000001", "3f2a9c11d0", "sha256:abc", "shop/0b5d7c1e-0000-4000-8000-000000000001",
		"host.example:8443", "[::1]:80",
	} {
		require.Equal(t, value != "10.0.0.1", volatile(value), value)
	}
	for _, value := range []string{"shop/web-0", "pvc-0b5d7c1e-0000-4000-8000-000000000001", "worker-3", "web-7f9c6d5b4-x2v9p", "deadbeef-team", "system:serviceaccount:kube-system:x", "facade", "i-0abc12345"} {
		require.False(t, volatile(value), value)
	}
	for _, line := range []string{
		`E0101 10:00:00.0 1 a.go:1] "rejected connection" remote="10.0.0.1:43210" name="10.0.0.1:43210" namespace="x"`,
		`E0101 10:00:00.0 1 a.go:1] cannot reach peer "10.0.0.1:43210": connection is refused`,
		`{"level":"error","msg":"cannot delete the request","request":"0b5d7c1e-0000-4000-8000-000000000001"}`,
	} {
		for _, p := range Propose(line) {
			require.Empty(t, p.Value, line)
		}
	}
}
