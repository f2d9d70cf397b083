//go:build !unix

package inforce

import "time"

// ProcessCPU is unknown on this platform, so that no rule is quarantined for its cost.
func ProcessCPU() (time.Duration, bool) { return 0, false }
