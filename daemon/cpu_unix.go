//go:build unix

package daemon

import (
	"syscall"
	"time"
)

// processCPU returns the CPU time of this process; false if it is unknown.
func processCPU() (time.Duration, bool) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}

// descriptorLimit returns the limit of open descriptors; false if it is unknown.
func descriptorLimit() (int, bool) {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0, false
	}
	return int(min(l.Cur, 1<<30)), true
}
