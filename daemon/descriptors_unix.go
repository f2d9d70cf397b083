//go:build unix

package daemon

import "syscall"

// descriptorLimit returns the limit of open descriptors, or false if it is unknown.
func descriptorLimit() (int, bool) {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0, false
	}
	return int(min(l.Cur, 1<<30)), true
}
