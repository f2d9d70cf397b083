//go:build !linux

package demo

import "syscall"

// attributes returns nil, because only on Linux does a child end with a killed parent.
func attributes() *syscall.SysProcAttr { return nil }
