package pair

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/fakeam"
	"crowsnest/test/kubelab"
	"crowsnest/test/wait"
)

// What a standby costs, with 1,000 open alerts whose lines continue. CROWSNEST_PAIR_COSTS
// runs it.
func TestCosts(t *testing.T) {
	if os.Getenv("CROWSNEST_PAIR_COSTS") == "" {
		t.Skip("a measurement: set CROWSNEST_PAIR_COSTS")
	}
	const alerts, perSecond, seconds = 1000, 100, 60
	am, err := fakeam.Serve(fakeam.New())
	require.NoError(t, err)
	t.Cleanup(am.Stop)
	folder := t.TempDir()
	w := newWorld(t, options{
		decide: func(int) (string, *kubelab.Proxy) { return "shared_folder: " + folder, nil },
		lease:  15 * time.Second, ams: []string{am.URL},
	})
	w.start()
	for i := range alerts {
		w.pods[i%2].Write("stderr", fmt.Sprintf("broken id=x%d because of something that takes a while to explain in a log line, as usual", i))
	}
	require.True(t, wait.Until(time.Minute, func() bool { return len(w.hook.states()) == alerts }))
	leader, standby := w.leader()
	pause(20 * time.Second)
	cpu := func(m *member) time.Duration {
		used, err := m.Process().CPU()
		require.NoError(t, err)
		return used
	}
	measure := func(name string) {
		l, s, sent := cpu(leader), cpu(standby), leader.value("crowsnest_checkpoints_sent_bytes_total")
		began := time.Now()
		for i := 0; time.Since(began) < seconds*time.Second; i++ {
			if name == "busy" {
				for j := range perSecond / 10 {
					n := (i*perSecond/10 + j) % alerts
					w.pods[n%2].Write("stderr", fmt.Sprintf("broken id=x%d again, at %d", n, i))
				}
			}
			pause(100 * time.Millisecond)
		}
		took := time.Since(began).Seconds()
		dl, ds := (cpu(leader) - l).Seconds(), (cpu(standby) - s).Seconds()
		t.Logf("%s: leader %.2f %% of a CPU, standby %.2f %% (%.1f %% of the leader's), %.0f kB/s of checkpoints, resident %d and %d MiB",
			name, 100*dl/took, 100*ds/took, 100*ds/dl, (leader.value("crowsnest_checkpoints_sent_bytes_total")-sent)/took/1000,
			leader.Process().Memory("VmRSS")>>10, standby.Process().Memory("VmRSS")>>10)
	}
	measure("quiet")
	measure("busy")
}
