//go:build !linux

package daemon

// ReleaseProgram does nothing on this system.
func ReleaseProgram() error { return nil }
