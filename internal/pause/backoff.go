package pause

import (
	"math/rand/v2"
	"time"
)

// Backoff returns how long to wait after a number of consecutive failures, at least one. The
// wait is first, doubled with each further failure up to longest. At most two fifths less are
// random.
func Backoff(first, longest time.Duration, failures int) time.Duration {
	return Jitter(min(first<<min(failures-1, 16), longest) * 4 / 5)
}

// Jitter varies a wait by up to a quarter in both directions, so that many clients do not send
// their requests at the same time.
func Jitter(d time.Duration) time.Duration { return d - d/4 + rand.N(d/2+1) } //nolint:gosec // Nobody gains from guessing it.
