package component

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Every entry has the texts that documents and alerts show.
func TestKindsAreExplained(t *testing.T) {
	for _, k := range append(Sources(), Sinks()...) {
		require.NotEmpty(t, k.Help, k.Key)
		for reason, l := range k.Losses {
			require.NotEmpty(t, l.Severity, reason)
			require.NotEmpty(t, l.What, reason)
			require.NotEmpty(t, l.Fix, reason)
		}
	}
}
