package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A build that takes long says how far it is, also where there is no terminal, and that it has
// ended. Its errors and its exit code are those of go.
func TestBuildShowsProgress(t *testing.T) {
	script, err := filepath.Abs("internal/demo/build.sh")
	require.NoError(t, err)
	run := func(program string) (string, error) {
		dir := t.TempDir()
		path := filepath.Join(dir, "go")
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/bash\n"+program), 0o700)) //nolint:gosec // it is run
		out, err := exec.Command(script, "it", "3", path, "build", "./x").CombinedOutput()
		return string(out), err
	}
	out, err := run(`[[ $* == "build -v ./x" ]] && echo crowsnest/x >&2`)
	require.NoError(t, err)
	require.Empty(t, out, "nothing is said about what is quick")
	out, err = run("echo 'go: downloading a v1' >&2; sleep 2.1; echo crowsnest/x >&2; sleep 0.1")
	require.NoError(t, err)
	require.Regexp(t, "^building it: modules downloaded: 1, 2s\nbuilding it: ended after [0-9]+s\n$", out)
	out, err = run("echo '# crowsnest/x' >&2; echo 'x.go:1:1: broken' >&2; exit 3")
	require.Error(t, err)
	require.Equal(t, "# crowsnest/x\nx.go:1:1: broken\n", out)
}
