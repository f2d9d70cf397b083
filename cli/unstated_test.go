package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/replay"
	"crowsnest/rules"
)

// Every placeholder in a step is reported.
func TestUnstatedLabels(t *testing.T) {
	report := func(labels map[string]string, steps string) string {
		var out strings.Builder
		reportUnstated(&out, replay.Report{Alerts: []replay.Alert{{Episode: episodes.Episode{
			Rule: &rules.Rule{By: []string{"namespace", "pod"}}, Labels: labels, Annotations: map[string]string{"remediation": steps},
		}}}})
		return out.String()
	}
	const step = "kubectl -n NAMESPACE delete pod POD"
	require.Contains(t, report(nil, step), "contain the placeholders NAMESPACE and POD")
	require.Contains(t, report(map[string]string{"pod": "x"}, step), "scan with --label namespace=NAME\n")
	require.Empty(t, report(map[string]string{"namespace": "n", "pod": "POD"}, step))
	require.Empty(t, report(nil, "kubectl get nodes"))
}
