// Package cli has the commands of crowsnest: their flags, their output and their
// exit codes. What they do is in the packages below; the daemon is one of them.
package cli

import (
	"io"
)

// Run executes one command line and returns its exit code. getenv returns the
// value of an environment variable, as os.Getenv does.
func Run(args []string, in io.Reader, out, errOut io.Writer, getenv func(string) string) int {
	c := &cli{in: in, out: out, err: errOut, getenv: getenv}
	root := newRoot(c)
	root.SetArgs(args)
	return c.exit(root.Execute())
}
