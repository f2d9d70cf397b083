//go:build e2e

package pair

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/fakeam"
	"crowsnest/test/kubelab"
	"crowsnest/test/wait"
)

// An upgrade to a version whose state the older one cannot read: the standby goes first and
// takes over. The older process then says that it cannot read the state, is not ready, and
// never leads while the newer one runs. Nothing is lost or notified twice.
func TestE2EVersions(t *testing.T) {
	upgraded := newer(t)
	am, err := fakeam.Serve(fakeam.New())
	require.NoError(t, err)
	t.Cleanup(am.Stop)
	folder := t.TempDir()
	w := newWorld(t, options{
		decide: func(int) (string, *kubelab.Proxy) { return "shared_folder: " + folder, nil },
		lease:  5 * time.Second, ams: []string{am.URL},
	})
	w.start()
	k := w.work(1)
	leader, standby := w.leader()
	_, _ = standby.End(syscall.SIGTERM)
	standby.Binary = upgraded
	require.NoError(t, standby.Start())
	w.paired(time.Minute)
	require.EqualValues(t, 1, leader.value("crowsnest_leader"), "the newer one reads the state of the older one")

	_, _ = leader.End(syscall.SIGTERM)
	require.True(t, wait.Until(time.Minute, func() bool { return standby.value("crowsnest_leader") == 1 }))
	require.NoError(t, leader.Start())
	const word = "the leader is a newer version of crowsnest, whose state this version cannot read: upgrade this process"
	var said string
	require.True(t, wait.Until(time.Minute, func() bool {
		said, _ = leader.Get(context.Background(), "/-/ready")
		return said != "" && leader.value("crowsnest_standby_up") == 0
	}))
	pause(2 * w.opt.lease)
	_, err = leader.Get(context.Background(), "/-/ready")
	require.ErrorContains(t, err, word)
	require.Contains(t, leader.Log(), word)
	require.EqualValues(t, 0, leader.value("crowsnest_leader"))
	require.EqualValues(t, 1, standby.value("crowsnest_leader"))
	require.EqualValues(t, 0, standby.value("crowsnest_standby_up"), "the newer one has no standby")

	_, _ = leader.End(syscall.SIGTERM)
	leader.Binary = upgraded
	require.NoError(t, leader.Start())
	w.paired(time.Minute)
	k.end()
	w.judge(k, w.hook.states, "opened", "resolved")
}
