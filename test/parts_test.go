package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// make test says which part runs, that a silent part still runs, and which part failed.
func TestPartsShowProgress(t *testing.T) {
	program := filepath.Join(t.TempDir(), "make")
	require.NoError(t, os.WriteFile(program, []byte(`#!/bin/bash
case $2 in
(quick) echo fine ;;
(slow) printf half; read -t 1.5 <> <(:); echo " a line" ;;
(broken) echo 'x.go:1: wrong'; exit 3 ;;
esac
`), 0o700)) //nolint:gosec // it is run
	run := func(parts ...string) (string, error) {
		cmd := exec.Command("./parts.sh", append([]string{"1"}, parts...)...)
		cmd.Env = append(os.Environ(), "MAKE="+program)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run("quick", "slow")
	require.NoError(t, err)
	require.Regexp(t, `^== part 1 of 2: quick
fine
== passed: part 1 of 2, quick, after \d+s
== part 2 of 2: slow
   slow is running, \d+s
half a line
== passed: part 2 of 2, slow, after \d+s
== all 2 parts passed after \d+s
$`, out)
	out, err = run("quick", "broken", "slow")
	require.Error(t, err)
	require.Regexp(t, `x.go:1: wrong
== FAILED: part 2 of 3, broken, after \d+s; what failed is above. To run only this part: make broken
$`, out)
}
