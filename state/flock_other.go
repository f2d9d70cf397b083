//go:build !unix

package state

import "os"

// flock does nothing on systems without flock: the daemon runs on Linux.
func flock(*os.File) error { return nil }
