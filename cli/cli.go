// Package cli implements the commands of crowsnest: flags, output and exit codes.
// The packages that it imports do the work; the daemon is one of them.
package cli

import (
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Run executes one command line and returns its exit code. getenv returns the
// value of an environment variable, as os.Getenv does.
func Run(args []string, in io.Reader, out, errOut io.Writer, getenv func(string) string) int {
	c := &cli{in: in, out: out, err: errOut, getenv: getenv}
	root := newRoot(c)
	root.SetArgs(args)
	return c.exit(root.Execute())
}

// Commands returns all commands, for generators of manuals. They read nothing and
// discard what they write.
func Commands() *cobra.Command {
	return newRoot(&cli{in: strings.NewReader(""), out: io.Discard, err: io.Discard, getenv: func(string) string { return "" }})
}
