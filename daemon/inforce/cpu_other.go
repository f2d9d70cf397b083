//go:build !unix

package inforce

import "time"

// ProcessCPU returns false, because the CPU time is unknown on this platform. No rule is then quarantined for its cost.
func ProcessCPU() (time.Duration, bool) { return 0, false }
