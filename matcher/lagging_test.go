package matcher

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBoundLagging(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	stream := func(namespace string, i int) LaggingStream {
		return LaggingStream{
			Labels:        Labels{"cluster": "lab", "namespace": namespace, "pod": fmt.Sprintf("pod-%03d", i), "container": "c"},
			UnknownLabels: []string{"filename"}, ReadUpTo: start.Add(-time.Duration(i) * time.Second),
		}
	}
	var all []LaggingStream
	for i := range 3 {
		all = append(all, stream("few", i))
	}
	require.Equal(t, all, BoundLagging(all))
	for i := range MaxLagging {
		all = append(all, stream("many", i))
	}
	many := LaggingStream{
		Labels: Labels{"cluster": "lab", "namespace": "many", "container": "c"}, UnknownLabels: []string{"filename", "pod"},
		ReadUpTo: start.Add(-(MaxLagging - 1) * time.Second),
	}
	require.Equal(t, append(all[:3:3], many), BoundLagging(all), "a namespace stands for its streams")
	all = append(all[:3:3], LaggingStream{ReadUpTo: start})
	for i := range MaxLagging {
		all = append(all, LaggingStream{ReadUpTo: start.Add(time.Duration(i))})
	}
	require.Equal(t, all[:4], BoundLagging(all), "any stream")
	all = nil
	for i := range MaxLagging + 1 {
		all = append(all, stream(fmt.Sprint("ns-", i), i))
	}
	require.Equal(t, []LaggingStream{{ReadUpTo: start.Add(-MaxLagging * time.Second)}}, BoundLagging(all), "too many namespaces")
}
