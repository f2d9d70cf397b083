//go:build !unix

package plainfile

import "os"

const openFlags = 0

// links returns 1 instead of the number of hard links of the file. Only the daemon needs that number, and the daemon
// runs only on Linux.
func links(os.FileInfo) uint64 { return 1 }
