package matcher

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestShippedRulesOnCorpus compares the package with the reference: the shipped rules on a corpus of real lines.
func TestShippedRulesOnCorpus(t *testing.T) {
	root := filepath.Join("..", "..", "shared", "corpus", "real")
	if _, err := os.Stat(root); err != nil {
		t.Skip("no corpus beside the repository")
	}
	set := shipped(t)
	p := compile(t, set...)
	tuneFor(p, NewStream(manager, StreamOptions{}), ownLines(set)) // other texts are rare in them
	hits := 0
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		hits += requireShipped(t, p, set, string(raw))
		return nil
	}))
	require.Positive(t, hits)
	t.Logf("%d hits", hits)
}
