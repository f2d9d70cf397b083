// Command crowsnest reads controller logs, finds the lines that known failures write, and
// notifies Alertmanager of the failures that are open.
package main

import (
	"os"
	"runtime/debug"
	"strings"

	"github.com/prometheus/common/version"

	"crowsnest/cli"
	"crowsnest/internal/lazyre"
)

func main() {
	if version.Version == "" { // the program was built without the Makefile, as go install does
		if info, ok := debug.ReadBuildInfo(); ok {
			version.Version = releaseVersion(info.Main.Version)
		}
	}
	os.Exit(cli.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}

var release = lazyre.New(`^v\d+\.\d+\.\d+(-[a-zA-Z][a-zA-Z0-9.-]*)?$`)

// releaseVersion returns the version of a tagged module, such as 1.2.3. Other versions, such as one
// that Go derives from a commit, cannot be compared. They become devel-VERSION.
func releaseVersion(module string) string {
	if release.MatchString(module) {
		return strings.TrimPrefix(module, "v")
	}
	return strings.TrimRight("devel-"+strings.TrimPrefix(module, "(devel)"), "-")
}
