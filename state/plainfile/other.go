//go:build !unix

package plainfile

import "os"

const openFlags = 0

// links returns 1 instead of the file's number of links. Only the daemon needs that number, and
// it runs only on Linux.
func links(os.FileInfo) uint64 { return 1 }
