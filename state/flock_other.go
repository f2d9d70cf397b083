//go:build !unix

package state

import "os"

// flock does nothing where there is no flock: the daemon runs on Linux.
func flock(*os.File) error { return nil }
