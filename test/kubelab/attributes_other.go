//go:build !linux

package kubelab

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
