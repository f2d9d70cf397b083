// Package pair verifies two aggregators that are one: real processes, with agents, killed,
// paused and cut off by plan, while alerts open and end. What on-call was notified of is
// compared with what was logged.
//
//	go test ./test/pair                                          a short plan, with fake servers
//	go test -tags e2e -run Plans ./test/pair                     plans with a real API server and real Alertmanagers
//	CROWSNEST_PAIR_PLANS=200 CROWSNEST_PAIR_SEED=7 go test ...   how many, and from which seed
//	go test -parallel 16 ...                                     how many at a time
package pair

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"crowsnest/test/daemon"
)

var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "crowsnest-pair-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "pair:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	if binary = os.Getenv("CROWSNEST_PAIR_BIN"); binary == "" {
		binary = filepath.Join(dir, "crowsnest")
		if err := daemon.Build(binary); err != nil {
			fmt.Fprintln(os.Stderr, "pair:", err)
			return 1
		}
	}
	return m.Run()
}
