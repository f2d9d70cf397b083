package demo

import "syscall"

// attributes returns attributes that make the kernel kill the child when this process dies. They also keep a Ctrl-C in
// the terminal from the child, so that Stop can stop it in order.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
