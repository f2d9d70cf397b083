package child

import "syscall"

// attributes make the kernel kill a child when its parent ends, also by a kill.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
