package redact

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCorpus: nothing is hidden in logs of real controllers, which hold no secrets.
func TestCorpus(t *testing.T) {
	files, _ := filepath.Glob("../../shared/corpus/real/*/*.log")
	if len(files) == 0 {
		t.Skip("no corpus beside the repository")
	}
	r := New(nil)
	lines := 0
	for _, name := range files {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		for line := range strings.SplitSeq(string(b), "\n") {
			lines++
			require.Equal(t, line, r.String(line), name)
		}
	}
	require.NotZero(t, lines)
}
