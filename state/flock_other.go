//go:build !unix

package state

import "os"

// flock does nothing on systems without flock. The daemon runs only on Linux.
func flock(*os.File) error { return nil }
