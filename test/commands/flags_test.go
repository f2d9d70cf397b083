package commands

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the table knows, and what it refuses.
func TestFlags(t *testing.T) {
	all := programs(t)
	f := func(command, want string) {
		t.Helper()
		script, err := parse(command)
		require.NoError(t, err)
		var problems []string
		for _, words := range commandsOf(script) {
			_, more := checkCommand(all, words)
			problems = append(problems, more...)
		}
		require.Equal(t, want, strings.Join(problems, "; "), command)
	}
	f("kubectl -n a get pods -A -o wide | sort -rn | head -5", "")
	f("kubectl get --raw='/readyz?verbose'", "")
	f("kubectl exec POD -c etcd -- etcdctl endpoint status --cluster -w table", "")
	f("kubectl exec POD -- etcdctl endpoint status --clusters", "etcdctl endpoint status has no flag --clusters")
	f("kubectl get pods --sort .metadata.name", "kubectl get has no flag --sort")
	f("kubectl logs x --tail", "flag --tail of kubectl logs has no value")
	f("kubectl get pods -A=x", "flag -A of kubectl get takes no value")
	f("kubectl restart pod x", "kubectl has no subcommand restart in testdata/programs.txt")
	f("time crictl ps | wc -lx", "wc has no flag -lx")
	f("echo $(frobnicate -x)", "program frobnicate is not in testdata/programs.txt")
	f("jq -r --arg wanted x '.items'", "")
	f("tail -n5 x", "")
	_, err := parse("kubectl get pods | ")
	require.Error(t, err)
}

func TestPlaceholderWords(t *testing.T) {
	f := func(command string, want ...string) {
		t.Helper()
		script, err := parse(command)
		require.NoError(t, err)
		require.Equal(t, want, placeholders(script), command)
	}
	f("kubectl -n NAMESPACE logs POD -c x", "NAMESPACE", "POD")
	f("curl https://SERVER:9345/x", "SERVER")
	f("govc ls /DATACENTER/vm", "DATACENTER")
	f("export ETCDCTL_CERT=/x; kubectl get pods -o custom-columns='NAME:.metadata.name' -l a=b")
	f("kubectl get pods | grep Failed")
	require.True(t, named("Ask for POD first", "POD"))
	require.True(t, named("of VALUE0", "NAME"))
	require.False(t, named("most of the pods", "NAME"))
}
