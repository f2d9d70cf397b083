//go:build e2e

package pair

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/daemon/lead"
	"crowsnest/test/kubelab"
	"crowsnest/test/servers"
	"crowsnest/test/wait"
)

const (
	namespace = "crowsnest"
	account   = "crowsnest-aggregator"
)

// alertmanagers has one group per alert, so that each notification is about one. As by
// default, the interval of a group is longer than what a member waits for the other one, 3.75 s
// here, and that is longer than crowsnest takes to find both after an outage, 2 s. It is no
// multiple of the time between two evaluations, so that ends seldom arrive during a flush.
const alertmanagers = `route: {receiver: test, group_by: ['...'], group_wait: 500ms, group_interval: 5130ms, repeat_interval: 4h}
receivers:
- name: test
  webhook_configs: [{url: %q, send_resolved: true}]
`

// lab is a real API server that grants what the manifests grant.
type lab struct {
	*kubelab.Lab
	token     string
	presented string // file with the token that the two present to each other
}

// newLab returns a lab for n plans, the first with the seed from.
func newLab(t *testing.T, n int, from uint64) *lab {
	l := &lab{Lab: kubelab.Start(t), presented: filepath.Join(t.TempDir(), "token")}
	l.Namespace(namespace)
	l.ServiceAccount(namespace, account)
	var names []string
	for i := range n {
		names = append(names, leaseOf(from+uint64(i)))
	}
	l.Grant(namespace, account, namespace,
		kubelab.Rule{Groups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
		kubelab.Rule{Groups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Names: names, Verbs: []string{"get", "update"}})
	l.Grant(namespace, account, "", kubelab.Rule{Groups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}})
	l.token = l.Token(namespace, account)
	require.NoError(t, os.WriteFile(l.presented, []byte(l.Token(namespace, account, "crowsnest-standby")), 0o600))
	return l
}

// pair returns a pair with a Lease of its own, which has the times of Kubernetes, and two
// real Alertmanagers whose notifications the hook gets.
func (l *lab) pair(t *testing.T, seed uint64, binary string, r *reads) (*world, *servers.Hook) {
	t.Helper()
	hook := servers.NewHook(t, keyOf)
	ams := servers.Alertmanagers(t, servers.AlertmanagerOptions{Config: fmt.Sprintf(alertmanagers, hook.URL), Faster: 4})
	w := newWorld(t, options{binary: binary, reads: r, lease: 15 * time.Second, ams: []string{ams[0].URL, ams[1].URL}, decide: func(int) (string, *kubelab.Proxy) {
		network := kubelab.NewProxy(t, l.Port)
		config := l.Kubeconfig(network.URL(), l.token)
		return fmt.Sprintf("lease: {namespace: %s, name: %s, kubeconfig: %s}\n  token_review: {service_account: %s/%s, token_file: %s, kubeconfig: %s}",
			namespace, leaseOf(seed), config, namespace, account, l.presented, config), network
	}})
	w.also = func(key string) (out string) {
		for _, n := range hook.Notifications() {
			if n.Key == key {
				out += fmt.Sprintf("; Alertmanager %s %s %s", n.From[max(0, len(n.From)-5):], n.Status, n.Time.Format(clock))
			}
		}
		return out
	}
	return w, hook
}

// Plans of every fault with a real API server and two real Alertmanagers: people are
// notified once of every failure and of every end, whatever happens to one of the two
// aggregators.
func TestE2EPlans(t *testing.T) {
	n, from := plans(t, 3)
	l := newLab(t, n, from)
	var all takeovers
	t.Run("plan", func(t *testing.T) {
		for i := range n {
			seed := from + uint64(i)
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				w, hook := l.pair(t, seed, "", nil)
				watch := all.watch(t, w, l.URL, leaseOf(seed))
				k := w.plan(seed, 3, slices.Concat(faults, ofAgents, ofRecord))
				watch()
				w.judge(k, func() map[string]string { return ofFailures(hook.States()) }, "firing", "resolved")
				w.judge(k, w.hook.states, "opened", "resolved")
			})
		}
	})
	all.report(t)
}

func leaseOf(seed uint64) string { return fmt.Sprint("plan-", seed) }

// ofFailures leaves out the alerts of crowsnest about itself.
func ofFailures(states map[string]string) map[string]string {
	for key := range states {
		if len(key) > 9 && key[:9] == "Crowsnest" {
			delete(states, key)
		}
	}
	return states
}

// takeoverWithin is the promised time from the death of the leader to the next notification: the Lease has to end first.
const takeoverWithin = 30 * time.Second

// takeovers are measured from when the Lease could be taken.
type takeovers struct {
	mu              sync.Mutex
	taken, notified []time.Duration
}

// watch records the takeovers of a Lease until the returned function is called.
func (a *takeovers) watch(t *testing.T, w *world, api, name string) func() {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	client := &http.Client{Transport: insecure(), Timeout: 5 * time.Second}
	wg.Go(func() {
		defer client.CloseIdleConnections()
		var free, renewed time.Time
		holder := ""
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			now, at, ok := lease(ctx, client, api, name)
			switch {
			case !ok || now == holder:
				if ok && now != "" {
					renewed = at
				}
			case now == "":
				holder, free = "", time.Now() // released
			default:
				if holder != "" {
					free = renewed.Add(w.opt.lease)
				}
				if !free.IsZero() {
					wg.Go(func() { a.add(ctx, t, w, free, time.Now()) })
				}
				holder, renewed = now, at
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// add records a takeover.
func (a *takeovers) add(ctx context.Context, t *testing.T, w *world, free, taken time.Time) {
	if taken.Before(free) { // the leader gave it up
		free = taken
	}
	var said time.Time
	for said.IsZero() && ctx.Err() == nil {
		pause(50 * time.Millisecond)
		said = w.hook.after(taken)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken = append(a.taken, taken.Sub(free))
	if !said.IsZero() {
		a.notified = append(a.notified, max(0, said.Sub(free)))
	}
	t.Logf("takeover: the Lease was taken %v after it could be, the next notification came after %v", taken.Sub(free).Round(time.Millisecond), said.Sub(free).Round(time.Millisecond))
}

func (a *takeovers) report(t *testing.T) {
	t.Helper()
	if len(a.taken) == 0 {
		return
	}
	show := func(what string, all []time.Duration) time.Duration {
		slices.Sort(all)
		at := func(q float64) time.Duration {
			return all[min(len(all)-1, int(math.Ceil(q*float64(len(all))))-1)].Round(time.Millisecond)
		}
		t.Logf("%s, %d takeovers: p50 %v, p99 %v, max %v", what, len(all), at(.5), at(.99), at(1))
		return at(.99)
	}
	show("from when the Lease could be taken until it was", a.taken)
	require.LessOrEqual(t, show("until the next notification", a.notified), takeoverWithin-lead.DefaultTimes.Lease)
}

// lease returns the holder of a Lease and when it was renewed.
func lease(ctx context.Context, client *http.Client, api, name string) (holder string, renewed time.Time, ok bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, api+"/apis/coordination.k8s.io/v1/namespaces/"+namespace+"/leases/"+name, nil)
	if err != nil {
		return "", time.Time{}, false
	}
	req.Header.Set("Authorization", "Bearer "+kubelab.Admin)
	resp, err := client.Do(req)
	if err != nil {
		return "", time.Time{}, false
	}
	defer resp.Body.Close()
	var l struct {
		Spec struct {
			Holder  string    `json:"holderIdentity"`
			Renewed time.Time `json:"renewTime"`
		} `json:"spec"`
	}
	if resp.StatusCode != http.StatusOK || json.NewDecoder(resp.Body).Decode(&l) != nil {
		return "", time.Time{}, false
	}
	return l.Spec.Holder, l.Spec.Renewed, true
}

// A leader whose clock stands still leads on while its standby has taken over, and one of
// the agents still reaches it. People are notified once of everything all the same.
func TestE2EBothLead(t *testing.T) {
	bin := stoppable(t)
	n, from := plans(t, 2)
	l := newLab(t, n, from)
	for i := range n {
		seed := from + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w, hook := l.pair(t, seed, bin, nil)
			k := w.plan(seed, 2, []fault{{"the clock of the leader stops", bothLead}})
			w.judge(k, func() map[string]string { return ofFailures(hook.States()) }, "firing", "resolved")
			w.judge(k, w.hook.states, "opened", "resolved")
		})
	}
}

// bothLead cuts off a leader whose clock stands still, until both have led for a while.
func bothLead(w *world, l, s *member, r *rand.Rand) {
	require.NoError(w.t, os.WriteFile(l.stopped, nil, 0o600))
	cut := []*kubelab.Proxy{l.record, l.standby, l.agents[r.IntN(len(l.agents))]}
	down(true, cut...)
	both := func() bool { return l.value("crowsnest_leader") == 1 && s.value("crowsnest_leader") == 1 }
	require.True(w.t, wait.Until(4*w.opt.lease, both), "both lead")
	pause(some(w, r, 0.3, 1.5))
	require.True(w.t, both(), "both still lead")
	down(false, cut...)
	require.True(w.t, wait.Until(w.opt.lease, func() bool { return !l.Process().Running() }), "it ends when it reaches the Lease")
	require.NoError(w.t, os.Remove(l.stopped))
}

// ofRecord are faults of the network to what decides who leads.
var ofRecord = []fault{
	{"the leader does not reach the record", func(w *world, l, _ *member, r *rand.Rand) {
		l.record.Down(true)
		pause(some(w, r, 0.5, 2))
		l.record.Down(false)
	}},
	{"the standby does not reach the record", func(w *world, _, s *member, r *rand.Rand) {
		s.record.Down(true)
		pause(some(w, r, 0.5, 2))
		s.record.Down(false)
	}},
	{"nobody reaches the record", func(w *world, l, s *member, r *rand.Rand) {
		l.record.Down(true)
		s.record.Down(true)
		pause(some(w, r, 0.5, 2))
		l.record.Down(false)
		s.record.Down(false)
	}},
	{"the leader reaches neither the record nor the standby", func(w *world, l, _ *member, r *rand.Rand) {
		l.record.Down(true)
		l.standby.Down(true)
		pause(some(w, r, 1.4, 2))
		l.record.Down(false)
		l.standby.Down(false)
	}},
}
