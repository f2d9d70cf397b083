package cli

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	run := func() { os.Exit(Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv)) }
	testscript.Main(m, map[string]func(){"crowsnest": run, "kubectl-crowsnest": run})
}

// A scenario is one file: commands, their input, what they print.
func TestScripts(t *testing.T) {
	packs, err := filepath.Abs("../rules/packs")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(repoRoot)
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       os.Getenv("UPDATE_SNAPSHOTS") != "",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PACKS", packs)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"action": runAction(root),
			// code N COMMAND...: the command exits with exactly that code.
			"code": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) < 2 {
					ts.Fatalf("usage: code N COMMAND...")
				}
				want, err := strconv.Atoi(args[0])
				ts.Check(err)
				err = ts.Exec(args[1], args[2:]...)
				if got := exitCodeOf(err); got != want {
					ts.Fatalf("exit code %d, want %d", got, want)
				}
			},
		},
	})
}

// exitCodeOf is the exit code of a command that was run.
func exitCodeOf(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := err.(interface{ ExitCode() int }); ok {
		return e.ExitCode()
	}
	return -1
}
