package intake

import (
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
)

// A label may hold any text, such as a link: only the characters of names are shown.
func TestLogsAreDescribedByNames(t *testing.T) {
	for want, labels := range map[string]matcher.Labels{
		"":                               nil,
		"file /var/log/x.log":            {"filename": "/var/log/x.log"},
		"node n1, unit kubelet.service":  {"node_name": "n1", "unit": "kubelet.service"},
		"namespace a?b, pod ?x?https?//": {"namespace": "a\nb", "pod": "`x`https://"},
		"pod ??http?//evil?click?":       {"pod": "<\u202ehttp://evil|click>"},
	} {
		require.Equal(t, want, describeLog(labels))
	}
}
