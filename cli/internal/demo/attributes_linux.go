package demo

import "syscall"

// attributes kill the child when this process dies, and keep the terminal's
// Ctrl-C from it, so that Stop can end it in order.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
