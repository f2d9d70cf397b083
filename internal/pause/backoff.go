package pause

import (
	"math/rand/v2"
	"time"
)

// Backoff returns the time to wait after a number of consecutive failures. The number must be at least one. The wait
// starts at first and doubles with each further failure up to longest. A random part of up to two fifths is subtracted.
func Backoff(first, longest time.Duration, failures int) time.Duration {
	return Jitter(min(first<<min(failures-1, 16), longest) * 4 / 5)
}

// Jitter changes a duration randomly by up to a quarter in both directions, so that many clients do not send their
// requests at the same time.
func Jitter(d time.Duration) time.Duration { return d - d/4 + rand.N(d/2+1) } //nolint:gosec // nobody gains from guessing the value
