//go:build !unix

package plainfile

import "os"

const openFlags = 0

// links returns 1, because the daemon runs on Linux.
func links(os.FileInfo) uint64 { return 1 }
