// Package hostile feeds the real daemon with what tenants, and everyone who can write
// a log, would feed it: forged signatures, secrets and markup. What it asks for:
// no alert that somebody else caused, no secret in anything that leaves the
// process or stays on its disk, and no text that a browser or a chat obeys.
package hostile

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"crowsnest/test/daemon"
)

// binary is the program under test.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "crowsnest-hostile-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "crowsnest")
	if err := daemon.Build(binary); err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		return 1
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		return 1
	}
	return code
}
