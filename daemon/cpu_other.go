//go:build !unix

package daemon

import "time"

// processCPU is unknown on this platform, so no rule is quarantined for its cost.
func processCPU() (time.Duration, bool) { return 0, false }

// descriptorLimit is not known here.
func descriptorLimit() (int, bool) { return 0, false }
