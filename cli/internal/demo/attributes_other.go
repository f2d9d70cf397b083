//go:build !linux

package demo

import "syscall"

// attributes returns nil, because only Linux can kill a child when its parent dies.
func attributes() *syscall.SysProcAttr { return nil }
