package demo

import "syscall"

// attributes returns attributes with which the child is killed when this process dies. The
// child also does not receive Ctrl-C from the terminal, so that Stop can end it in order.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
