package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The committed files are what the generator writes, and nothing else is beside them.
func TestFilesAreGenerated(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"rules", "dashboards"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, sub), 0o755))
	}
	written := []string{"rules/crowsnest.yaml", "rules/kustomization.yaml"}
	for _, name := range written {
		text, err := os.ReadFile(filepath.Join("..", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	require.NoError(t, write(dir))
	require.Equal(t, content(t, dir), content(t, ".."), "run make dashboards")
}

// content returns the files of rules and dashboards by their path.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, sub := range []string{"rules", "dashboards"} {
		files, err := filepath.Glob(filepath.Join(dir, sub, "*"))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			out[sub+"/"+filepath.Base(file)] = string(text)
		}
	}
	require.NotEmpty(t, out)
	return out
}
