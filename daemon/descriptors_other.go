//go:build !unix

package daemon

// descriptorLimit is unknown on this system.
func descriptorLimit() (int, bool) { return 0, false }
