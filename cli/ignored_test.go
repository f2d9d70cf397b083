package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/replay"
)

func TestReportIgnored(t *testing.T) {
	var b strings.Builder
	reportIgnored(&b, replay.Report{})
	require.Empty(t, b.String())
	r := replay.Report{UntrustedLines: map[replay.RuleNamespace]int64{{Rule: "A", Namespace: "team"}: 2, {Rule: "B", Namespace: "$(reboot)"}: 1}}
	for i := range 4 {
		r.UntrustedLines[replay.RuleNamespace{Rule: fmt.Sprint("C", i), Namespace: "team"}] = 1
	}
	reportIgnored(&b, r)
	require.Equal(t, "ignored 6 lines of namespace team for A, C0, C1 and 2 more rules: it is not an infrastructure namespace; to include it: --infrastructure-namespaces=+team, and in the configuration rules.infrastructure_namespaces: [+team]\n"+
		"ignored 1 line of namespace $(reboot) for B: it is not an infrastructure namespace\n", b.String(), "no command holds what is not a name")
	for i := range 20 {
		r.UntrustedLines[replay.RuleNamespace{Rule: "A", Namespace: fmt.Sprint("n", i)}] = 1
	}
	b.Reset()
	reportIgnored(&b, r)
	require.Contains(t, b.String(), "ignored lines of 12 more namespaces")
}
