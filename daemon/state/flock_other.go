//go:build !unix

package state

import "os"

// flock does nothing on systems without flock, because the daemon runs only on Linux.
func flock(*os.File) error { return nil }
