package pair

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/daemon"
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
		w.write(i%2, fmt.Sprintf("broken id=x%d because of something that takes a while to explain in a log line, as usual", i))
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
					w.write(n%2, fmt.Sprintf("broken id=x%d again, at %d", n, i))
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

// What a process without a standby costs, and how late it notifies, beside the binary in
// CROWSNEST_PAIR_BEFORE.
func TestCostsAlone(t *testing.T) {
	before := os.Getenv("CROWSNEST_PAIR_BEFORE")
	if before == "" {
		t.Skip("a measurement: set CROWSNEST_PAIR_BEFORE to a binary")
	}
	const alerts, seconds = 1000, 60
	for range 2 {
		for _, bin := range []string{before, binary} {
			am, err := fakeam.Serve(fakeam.New())
			require.NoError(t, err)
			w := newWorld(t, options{alone: bin, ams: []string{am.URL}})
			one := w.pair[0]
			require.NoError(t, one.Start())
			for _, a := range w.agents {
				require.NoError(t, a.Start())
			}
			for i := range alerts {
				w.write(i%2, fmt.Sprintf("broken id=x%d because of something that takes a while to explain in a log line, as usual", i))
			}
			require.True(t, wait.Until(time.Minute, func() bool { return len(w.hook.states()) == alerts }))
			pause(10 * time.Second)
			began := time.Now()
			used, err := one.Process().CPU()
			require.NoError(t, err)
			var late []time.Duration
			for i := 0; time.Since(began) < seconds*time.Second; i++ {
				for j := range 10 {
					n := (10*i + j) % alerts
					w.write(n%2, fmt.Sprintf("broken id=x%d again, at %d", n, i))
				}
				if i%10 == 0 {
					wrote := time.Now()
					w.write(0, fmt.Sprintf("broken id=new%d", i))
					require.True(t, wait.Until(10*time.Second, func() bool { return w.hook.states()[fmt.Sprint("Broken new", i)] != "" }))
					late = append(late, w.hook.after(wrote).Sub(wrote))
				}
				pause(100 * time.Millisecond)
			}
			now, err := one.Process().CPU()
			require.NoError(t, err)
			slices.Sort(late)
			t.Logf("%s: %.2f %% of a CPU, resident %d MiB, notified after p50 %v, max %v", filepath.Base(bin), 100*(now-used).Seconds()/time.Since(began).Seconds(),
				one.Process().Memory("VmRSS")>>10, late[len(late)/2].Round(time.Millisecond), late[len(late)-1].Round(time.Millisecond))
			for _, d := range []*daemon.Daemon{one.Daemon, w.agents[0], w.agents[1]} {
				_, _ = d.End(syscall.SIGKILL)
			}
			am.Stop()
		}
	}
}
