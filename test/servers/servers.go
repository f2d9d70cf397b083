// Package servers starts real servers for tests, on loopback: Loki, Alertmanager
// and Prometheus. Their programs are built once by `make e2e-servers`; a test
// whose program is absent is skipped and says so, or fails if the environment
// variable CROWSNEST_SERVERS is "required".
//
// A server ends with its test, and with the process if that is killed. When a
// test fails, the logs of its servers are kept and their paths are printed.
package servers

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// required is the value of CROWSNEST_SERVERS with which a missing program fails
// a test.
const required = "required"

// CacheDir is the folder of the programs: $XDG_CACHE_HOME/crowsnest/bin or
// ~/.cache/crowsnest/bin.
func CacheDir() string {
	base := os.Getenv("XDG_CACHE_HOME")
	if base == "" {
		base = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	return filepath.Join(base, "crowsnest", "bin")
}

// Program returns the path of a program: of the cache folder, else of PATH. It
// skips the test if there is none.
func Program(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(CacheDir(), name)
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
		return path
	}
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	msg := fmt.Sprintf("there is no %s in %s nor in PATH: run make e2e-servers, which builds it once", name, CacheDir())
	if os.Getenv("CROWSNEST_SERVERS") == required {
		t.Fatal(msg)
	}
	t.Skip(msg)
	return ""
}

// Ports of servers lie below those that the system gives to connections: above,
// a passing connection may hold one.
const (
	lowestPort  = 20000
	highestPort = 32000
)

var (
	portsMu sync.Mutex
	given   = map[int]bool{}
)

// FreePort returns a port of loopback that nobody uses, below 32768. It is not
// given to anybody else in this process.
func FreePort(t testing.TB) int {
	t.Helper()
	portsMu.Lock()
	defer portsMu.Unlock()
	for range 1000 {
		port := lowestPort + rand.N(highestPort-lowestPort)
		if given[port] {
			continue
		}
		l, err := net.Listen("tcp", address(port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatalf("close a port: %v", err)
		}
		given[port] = true
		return port
	}
	t.Fatalf("no port of 1000 tried between %d and %d is free", lowestPort, highestPort)
	return 0
}

// portOr returns port, or a free one for 0.
func portOr(t testing.TB, port int) int {
	t.Helper()
	if port == 0 {
		return FreePort(t)
	}
	return port
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
