package discover

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
)

func TestRecoveries(t *testing.T) {
	labels := matcher.Labels{"namespace": "shop", "container": "volumes"}
	f := func(failure, log, want string) {
		t.Helper()
		var p Proposal
		if all := Propose(failure); len(all) > 0 {
			p = all[0]
		}
		r, err := NewRecoveries([]Failure{{Proposal: p, Labels: labels}}, now, nil)
		require.NoError(t, err)
		require.NoError(t, r.Read(input("a", log, labels)))
		require.NoError(t, r.Read(input("b", strings.ReplaceAll(log, "attached", "attached here"), matcher.Labels{"namespace": "shop", "container": "another"})))
		got, ok := r.Clear(0)
		require.Equal(t, want != "", ok)
		if ok {
			require.Equal(t, want, got.Line)
			require.Equal(t, p.Object, got.Object)
			require.Equal(t, p.Value, got.Value)
		}
	}
	const failed = `E0101 10:00:00.0 1 volume.go:1] "Cannot attach the volume" err="disk is locked" volume="shop/a"`
	const attached = `I0101 10:00:09.0 1 volume.go:9] "Volume attached" volume="shop/a" node="n1"`
	another := strings.ReplaceAll(attached, "shop/a", "shop/b")
	f(failed, failed+"\n"+another+"\n"+attached+"\n", attached)
	// Success of something else, of another object, before the failure, or that is a failure.
	f(failed, failed+"\n"+another+"\n", "")
	f(failed, attached+"\n"+failed+"\n", "")
	f(failed, failed+"\n"+`I0101 10:00:09.0 1 volume.go:9] "Claim is bound" volume="shop/a"`+"\n", "")
	f(failed, failed+"\n"+`I0101 10:00:09.0 1 volume.go:9] "Volume is not attached" err="lost" volume="shop/a"`+"\n", "")
	// What comes again and again while the failure lasts does not end it.
	f(failed, strings.Repeat(failed+"\n"+attached+"\n", 9), "")
	f(failed, strings.Repeat(failed+"\n", 9)+attached+"\n"+strings.Repeat(failed+"\n", 9)+attached+"\n", attached)
	// Another field, or the text, names the object.
	f(failed, failed+"\n"+`I0101 10:00:09.0 1 volume.go:9] "Volume attached" disk="shop/a"`+"\n", `I0101 10:00:09.0 1 volume.go:9] "Volume attached" disk="shop/a"`)
	f(failed, failed+"\nI0101 10:00:09.0 1 volume.go:9] successfully attached volume shop/a\n", "I0101 10:00:09.0 1 volume.go:9] successfully attached volume shop/a")
	// Without an object, the words and the module decide.
	const lost = "E0101 10:00:00.0 1 election.go:1] leader election of the shop is lost"
	f(lost, lost+"\nI0101 10:00:01.0 1 election.go:7] leader election of the shop is done\n", "I0101 10:00:01.0 1 election.go:7] leader election of the shop is done")
	f(lost, lost+"\nI0101 10:00:01.0 1 other.go:7] the port is ready\n", "")
}

func TestSyslogIdentifier(t *testing.T) {
	require.Equal(t, "kubelet", SyslogIdentifier("Feb 12 08:15:05 worker-3 kubelet[4711]: cannot start"))
	require.Equal(t, "kernel", SyslogIdentifier("Feb 12 08:15:05 worker-3 kernel: out of memory"))
	require.Empty(t, SyslogIdentifier("Feb 12 08:15:05 something went wrong: really"))
	require.Empty(t, SyslogIdentifier("E0101 10:00:00.0 1 a.go:1] x: y"))
}
