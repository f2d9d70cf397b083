package pair

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/fakeam"
	"crowsnest/test/kubelab"
	"crowsnest/test/wait"
)

// fault is something that happens to a complete pair, and its repair.
type fault struct {
	name string
	do   func(w *world, leader, standby *member, r *rand.Rand)
}

const clock = "15:04:05.000"

func pause(d time.Duration) { wait.Pause(context.Background(), d) }

// some returns a random time in units of the lease.
func some(w *world, r *rand.Rand, from, to float64) time.Duration {
	return time.Duration((from + r.Float64()*(to-from)) * float64(w.opt.lease))
}

func (w *world) kill(m *member, down time.Duration, disk bool) {
	_, _ = m.End(syscall.SIGKILL)
	if disk {
		require.NoError(w.t, os.RemoveAll(m.StatePath()))
	}
	pause(down)
	require.NoError(w.t, m.Start())
}

// faults are what one failure at a time can be. That one of two Alertmanagers is not reached
// is not among them: if the other one gets the end of an alert, the first one notifies it as
// firing once more, from its own memory, whoever sends (docs/reliability.md).
var faults = []fault{
	{"the leader is killed and comes back soon", func(w *world, l, _ *member, r *rand.Rand) { w.kill(l, some(w, r, 0.05, 0.5), false) }},
	{"the leader is killed and stays away", func(w *world, l, _ *member, r *rand.Rand) { w.kill(l, some(w, r, 1.5, 2), false) }},
	{"the leader dies with its disk", func(w *world, l, _ *member, r *rand.Rand) { w.kill(l, some(w, r, 0.05, 2), true) }},
	{"the leader is paused for longer than its lease", func(w *world, l, _ *member, r *rand.Rand) {
		l.Signal(syscall.SIGSTOP)
		pause(some(w, r, 1.4, 2.2))
		l.Signal(syscall.SIGCONT)
	}},
	{"the leader is stopped", func(w *world, l, _ *member, r *rand.Rand) {
		_, _ = l.End(syscall.SIGTERM)
		pause(some(w, r, 0.05, 1))
		require.NoError(w.t, l.Start())
	}},
	{"the standby is killed", func(w *world, _, s *member, r *rand.Rand) { w.kill(s, some(w, r, 0.05, 1.5), false) }},
	{"the standby dies with its disk", func(w *world, _, s *member, r *rand.Rand) { w.kill(s, some(w, r, 0.05, 1), true) }},
	{"the standby is paused", func(w *world, _, s *member, r *rand.Rand) {
		s.Signal(syscall.SIGSTOP)
		pause(some(w, r, 0.2, 2))
		s.Signal(syscall.SIGCONT)
	}},
	{"leader and standby do not reach each other", func(w *world, l, _ *member, r *rand.Rand) {
		l.standby.Down(true)
		pause(some(w, r, 0.2, 1.5))
		l.standby.Down(false)
	}},
	{"nothing arrives between leader and standby", func(w *world, l, _ *member, r *rand.Rand) {
		l.standby.Hang(true)
		pause(some(w, r, 0.2, 1.5))
		l.standby.Hang(false)
	}},
	{"a rolling update", func(w *world, l, s *member, _ *rand.Rand) {
		for _, m := range []*member{s, l} {
			_, _ = m.End(syscall.SIGTERM)
			require.NoError(w.t, m.Start())
			w.paired(4 * w.opt.lease)
		}
	}},
	{"the leader dies while it reaches no Alertmanager", func(w *world, l, _ *member, r *rand.Rand) {
		down(true, w.ams...)
		pause(some(w, r, 0.1, 0.5))
		w.kill(l, some(w, r, 0.05, 1.5), r.IntN(2) == 0)
		down(false, w.ams...)
	}},
}

// ofAgents are faults of their networks.
var ofAgents = []fault{
	{"agents do not reach the leader", func(w *world, l, _ *member, r *rand.Rand) {
		down(true, l.agents[:]...)
		pause(some(w, r, 0.2, 1))
		down(false, l.agents[:]...)
	}},
	{"one agent does not reach the leader", func(w *world, l, _ *member, r *rand.Rand) {
		cut := l.agents[r.IntN(len(l.agents))]
		down(true, cut)
		pause(some(w, r, 0.2, 1))
		down(false, cut)
	}},
}

func down(down bool, networks ...*kubelab.Proxy) {
	for _, n := range networks {
		n.Down(down)
	}
}

// plan lets some of the faults happen, one after the other, while failures open and end. It
// returns the work, and why what was notified is wrong.
func (w *world) plan(seed uint64, steps int, among []fault) *work {
	w.t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	w.start()
	k := w.work(seed)
	pause(some(w, r, 0.1, 0.5))
	for range steps {
		f := among[r.IntN(len(among))]
		leader, standby := w.leader()
		if leader == nil {
			w.fail("nobody leads")
		}
		w.t.Logf("%s seed %d: %s", time.Now().Format(time.TimeOnly), seed, f.name)
		f.do(w, leader, standby, r)
		w.paired(8*w.opt.lease + 30*time.Second)
		pause(some(w, r, 0.1, 0.7))
	}
	k.end()
	return k
}

// judge waits until the states of all failures were notified, and then requires that
// nothing else was. get returns the notified states by key; begun and over are their words.
func (w *world) judge(k *work, get func() map[string]string, begun, over string) {
	w.t.Helper()
	want := map[string]string{}
	for key, f := range k.failures() {
		want[key] = begun
		if f.ended {
			want[key] += " " + over
		}
	}
	settled := wait.Until(4*w.opt.lease+40*time.Second, func() bool {
		w.supervise()
		got := get()
		for key, states := range want {
			if len(got[key]) < len(states) {
				return false
			}
		}
		return true
	})
	pause(2 * time.Second)
	got := get()
	wrong, repeats := "", 0
	for key, states := range want {
		switch {
		case got[key] == states:
		case begun == "firing" && repeated(got[key], states) && w.once(key):
			repeats++
		default:
			wrong += fmt.Sprintf("\n%s: %q, want %q; logged at %s%s", key, got[key], states, k.failures()[key].at.Format(clock), w.story(key))
		}
	}
	for key := range got {
		if want[key] == "" {
			wrong += fmt.Sprintf("\n%s: %q, want nothing", key, got[key])
		}
	}
	if !settled || wrong != "" {
		w.fail("notified otherwise than logged:" + wrong)
	}
	_, requests := w.hook.count()
	w.t.Logf("%d failures, each notified once; Alertmanager itself repeated %d; the sink webhook repeated %d requests", len(want), repeats, requests)
}

// A short plan: every kind of fault is in make chaos and in the plans with real servers.
func TestPair(t *testing.T) {
	t.Parallel()
	am, err := fakeam.Serve(fakeam.New())
	require.NoError(t, err)
	t.Cleanup(am.Stop)
	folder := t.TempDir()
	w := newWorld(t, options{
		decide: func(int) (string, *kubelab.Proxy) { return "shared_folder: " + folder, nil },
		lease:  3 * time.Second, ams: []string{am.URL},
	})
	k := w.plan(1, 1, faults[2:3])
	w.judge(k, w.hook.states, "opened", "resolved")
}

// plans returns how many plans to run, and the seed of the first.
func plans(t *testing.T, otherwise int) (n int, from uint64) {
	t.Helper()
	n = otherwise
	if text := os.Getenv("CROWSNEST_PAIR_PLANS"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	if text := os.Getenv("CROWSNEST_PAIR_SEED"); text != "" {
		var err error
		from, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	return n, from
}

// Plans of every fault that needs no API server, with a short lease.
func TestPairPlans(t *testing.T) {
	if os.Getenv("CROWSNEST_CHAOS") == "" {
		t.Skip("minutes long: set CROWSNEST_CHAOS")
	}
	n, from := plans(t, 20)
	for i := range n {
		seed := from + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			am, err := fakeam.Serve(fakeam.New())
			require.NoError(t, err)
			t.Cleanup(am.Stop)
			folder := t.TempDir()
			w := newWorld(t, options{
				decide: func(int) (string, *kubelab.Proxy) { return "shared_folder: " + folder, nil },
				lease:  3 * time.Second, ams: []string{am.URL},
			})
			k := w.plan(seed, 4, slices.Concat(faults, ofAgents))
			w.judge(k, w.hook.states, "opened", "resolved")
		})
	}
}
