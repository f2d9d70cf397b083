//go:build !unix

package daemon

import "time"

// processCPU is not known here: no rule is given up for its cost.
func processCPU() (time.Duration, bool) { return 0, false }

// descriptorLimit is not known here.
func descriptorLimit() (int, bool) { return 0, false }
