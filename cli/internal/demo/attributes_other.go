//go:build !linux

package demo

import "syscall"

// attributes: outside of Linux a child does not die with a parent that is
// killed.
func attributes() *syscall.SysProcAttr { return nil }
