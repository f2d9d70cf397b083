package discover

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
)

// Complaints with the same cause form one entry.
func TestSameCause(t *testing.T) {
	f := func(want int, all ...string) {
		t.Helper()
		log := "E0101 10:00:00.0 1 sync.go:1] " + strings.Join(all, "\nE0101 10:00:00.0 1 sync.go:1] ") + "\n"
		require.Len(t, find(t, nil, Options{}, input("a", log, nil)).Patterns, want, log)
	}
	f(1, "leaderelection lost", "problem running manager: leader election lost")
	f(1, "cannot scale: quota of tenant is used up", "\"Sync failed\" err=\"create pod: quota of tenant is used up\"")
	f(1, "pausing the workers of group a until noon of this day; class=Busy; code=quota", "pausing the workers of group a until noon of this day; class=Busy; code=denied")
	f(2, "cannot scale: quota of tenant is used up", "cannot scale: disk of tenant is full")
	f(2, "cannot get the client: connection to the cluster is down", "cannot get the client: token is stale")
	f(1, "cannot get the client: connection to the cluster is down", "cannot list the nodes: connection to the cluster is down")
	// One module that cannot reach a server, in several steps.
	f(1, "cannot get the lock: Get \"https://a\": context deadline exceeded", "cannot update the lease: Put \"https://a\": context deadline exceeded")
	f(2, "cannot get the lock: it is broken", "cannot update the lease: Put \"https://a\": context deadline exceeded")
}

// Another module, or other streams, form another complaint.
func TestUnreached(t *testing.T) {
	const lock = "E0101 10:00:00.0 1 lock.go:1] cannot get the lock: dial tcp 10.0.0.1:443: connect: connection refused\n"
	const push = "E0101 10:00:00.0 1 push.go:1] cannot push the lease: dial tcp 10.0.0.1:443: connect: connection refused\n"
	same := strings.Replace(push, "push.go", "lock.go", 1)
	require.Len(t, find(t, nil, Options{}, input("a", lock+push, nil)).Patterns, 2)
	require.Len(t, find(t, nil, Options{}, input("a", lock+same, nil)).Patterns, 1)
	require.Len(t, find(t, nil, Options{}, input("a", lock, nil), input("b", same, nil)).Patterns, 2)
	require.Len(t, find(t, nil, Options{}, input("a", lock+same, nil), input("b", same, nil)).Patterns, 1)
}

// A complaint of another module of the component counts less than another one of the
// same module, and a complaint of all components counts little.
func TestParts(t *testing.T) {
	labels := func(c string) matcher.Labels { return matcher.Labels{"namespace": "zoo", "pod": c, "container": c} }
	line := func(file, text string) string { return "E0101 10:00:00.0 1 " + file + ":1] " + text + "\n" }
	r := find(t, nil, Options{}, input("a", line("feed.go", "cannot feed the old ant")+line("feed.go", "unable to weigh this bee")+line("wash.go", "unable to wash that cat"), labels("keeper")))
	require.Equal(t, []string{"error 1 cannot feed the old ant", "error 1 unable to wash that cat", "error 1 unable to weigh this bee"}, summary(r))
	require.Contains(t, r.Patterns[1].Reasons, "its component has more urgent entries -1.4")
	everywhere := strings.Repeat(line("net.go", "cannot reach the water"), 3)
	r = find(t, nil, Options{},
		input("a", everywhere, labels("keeper")), input("b", everywhere, labels("desk")), input("c", everywhere, labels("gate")),
		input("d", line("desk.go", "unable to print tickets"), labels("desk")))
	require.Equal(t, "error 1 unable to print tickets", summary(r)[1])
	require.Contains(t, r.Patterns[1].Reasons, "its component has more urgent entries -0.6")
}
