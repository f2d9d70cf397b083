package child

import "syscall"

// attributes end a child with its parent, however that ends.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
