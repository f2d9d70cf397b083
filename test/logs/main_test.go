// Package logs runs the real binary over many logs of which one cannot be read: the others
// are read as if it were not there. It also keeps and ends alerts that lost their places.
package logs

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"crowsnest/test/daemon"
)

// program is the binary under test.
var program string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	_ = flag.Set("test.parallel", "20") // scenarios are mostly waiting
	dir, err := os.MkdirTemp("", "crowsnest-logs-")
	if err == nil {
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "crowsnest")
		err = daemon.Build(program)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "logs:", err)
		return 1
	}
	return m.Run()
}
