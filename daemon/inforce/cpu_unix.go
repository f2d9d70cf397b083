//go:build unix

package inforce

import (
	"syscall"
	"time"
)

// ProcessCPU returns the CPU time of this process, or false if it is unknown.
func ProcessCPU() (time.Duration, bool) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
