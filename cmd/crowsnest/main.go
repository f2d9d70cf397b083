// Command crowsnest reads controller logs, finds the lines that known failures
// leave, and tells Alertmanager which failures are open.
//
// The package wires the others together: flags, configuration, exit codes and
// the daemon. What the program knows about rules, lines and episodes is in the
// packages below.
package main

import (
	"io"
	"os"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv)) }

// run executes one command line and returns its exit code.
func run(args []string, in io.Reader, out, errOut io.Writer, getenv func(string) string) int {
	c := &cli{in: in, out: out, err: errOut, getenv: getenv}
	root := newRoot(c)
	root.SetArgs(args)
	return c.exit(root.Execute())
}
