// Package chaos verifies the promises of the daemon with its real binary: a
// simulated kubelet writes and rotates logs, a plan made from a seed kills and
// stops the daemon and lets its Alertmanagers fail, and a verifier that is never
// faulted compares what arrived with what was planted.
//
//	go test ./test/chaos                              the short tier
//	CROWSNEST_CHAOS=1 go test -timeout 120m ./test/chaos     the full bars
//	CROWSNEST_CHAOS_SEED=7 go test -run Kills ./test/chaos   replays a plan
package chaos

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"crowsnest/test/daemon"
)

// long reports whether to run the full form.
var long = os.Getenv("CROWSNEST_CHAOS") != ""

// The binary under test, and the folder for everything else.
var (
	binary string
	lab    string
)

// tmpfs is its magic number in statfs.
const tmpfs = 0x01021994

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	// Most tests wait most of the time.
	_ = flag.Set("test.parallel", "4") // before the command line is read, which wins
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 1
	}
	defer os.RemoveAll(lab)
	return m.Run()
}

// prepare creates the laboratory and builds the binary. It refuses tmpfs, which
// does not reuse inodes, because reuse is what confuses tailers.
func prepare() error {
	base := os.Getenv("CROWSNEST_CHAOS_DIR")
	if base == "" {
		base = "/var/tmp"
	}
	var err error
	if lab, err = os.MkdirTemp(base, "crowsnest-chaos-"); err != nil {
		return err
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(lab, &fs); err != nil {
		return err
	}
	if fs.Type == tmpfs {
		return fmt.Errorf("%s is a tmpfs; name a folder on a disk in CROWSNEST_CHAOS_DIR", base)
	}
	if binary = os.Getenv("CROWSNEST_CHAOS_BIN"); binary != "" {
		return nil
	}
	binary = filepath.Join(lab, "crowsnest")
	return daemon.Build(binary)
}

// folder returns a folder on the disk of the laboratory. If the test fails and
// CROWSNEST_CHAOS_KEEP is set, the folder is kept and its name is logged.
func folder(t *testing.T) string {
	t.Helper()
	base := lab
	if keep := os.Getenv("CROWSNEST_CHAOS_KEEP"); keep != "" {
		base = keep
	}
	dir, err := os.MkdirTemp(base, strings.ReplaceAll(t.Name(), "/", "-")+"-")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// seed returns the seed of the plan.
func seed(t *testing.T) uint64 {
	t.Helper()
	s := uint64(time.Now().UnixNano()) % 1e6
	if text := os.Getenv("CROWSNEST_CHAOS_SEED"); text != "" {
		var err error
		if s, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("CROWSNEST_CHAOS_SEED=%d", s)
	return s
}
