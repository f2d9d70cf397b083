//go:build !unix

package daemon

// descriptorLimit is not known here.
func descriptorLimit() (int, bool) { return 0, false }
