// Package hostile feeds the real daemon with input of tenants and of everyone
// else who can write a log: forged signatures, secrets and markup. It requires
// that no alert is caused by the wrong origin, that no secret leaves the
// process or stays on its disk, and that no text acts as markup in a browser or
// a chat.
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
