// Package servers starts real servers for tests, on loopback: Loki, VictoriaLogs, Alertmanager and
// Prometheus. `make e2e-servers` builds their programs once. A test whose program is
// missing is skipped and logs that, or fails if the environment variable
// CROWSNEST_SERVERS is "required".
//
// A server ends with its test, and with the process if that is killed. When a test
// fails, the logs of its servers are kept and their paths are printed.
package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"crowsnest/test/child"
)

// required is the value of CROWSNEST_SERVERS that makes a missing program fail a test.
const required = "required"

// cacheDir is the folder of the programs: $XDG_CACHE_HOME/crowsnest/bin or
// ~/.cache/crowsnest/bin.
func cacheDir() string {
	base := os.Getenv("XDG_CACHE_HOME")
	if base == "" {
		base = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	return filepath.Join(base, "crowsnest", "bin")
}

// Find returns the path of a program, "" if there is none: from the environment variable
// CROWSNEST_NAME, such as CROWSNEST_ALERTMANAGER, else in the cache folder, else in
// PATH.
func Find(name string) string {
	path := filepath.Join(cacheDir(), name)
	named := os.Getenv("CROWSNEST_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
	if named != "" {
		path = named
	}
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
		return path
	}
	if path, err := exec.LookPath(name); err == nil && named == "" {
		return path
	}
	return ""
}

// Program returns the path of a program, like Find. It skips the test if there is none.
func Program(t testing.TB, name string) string {
	t.Helper()
	if path := Find(name); path != "" {
		return path
	}
	msg := fmt.Sprintf("there is no %s in %s nor in PATH: run make e2e-servers, which builds it once", name, cacheDir())
	if os.Getenv("CROWSNEST_SERVERS") == required {
		t.Fatal(msg)
	}
	t.Skip(msg)
	return ""
}

// FreePort returns a free port of loopback, below 32768. It returns each port only once
// in this process.
func FreePort(t testing.TB) int {
	t.Helper()
	port, err := child.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// portOr returns port, or a free one for 0.
func portOr(t testing.TB, port int) int {
	t.Helper()
	if port == 0 {
		return FreePort(t)
	}
	return port
}

// File returns the path of a file that make e2e-servers provides. It skips the test if there
// is none.
func File(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(cacheDir(), name)
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		return path
	}
	msg := fmt.Sprintf("there is no %s: run make e2e-servers, which provides it once", path)
	if os.Getenv("CROWSNEST_SERVERS") == required {
		t.Fatal(msg)
	}
	t.Skip(msg)
	return ""
}
