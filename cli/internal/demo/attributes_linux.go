package demo

import "syscall"

// attributes let a child die with this process, and keep the terminal's Ctrl-C
// from it: it is stopped in order.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
