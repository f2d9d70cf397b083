// Command crowsnest reads controller logs, finds the lines that known failures
// leave, and notifies Alertmanager of the failures that are open.
package main

import (
	"os"

	"crowsnest/cli"
)

func main() { os.Exit(cli.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv)) }
