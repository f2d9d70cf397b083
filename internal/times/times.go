// Package times compares times, and corrects timestamps after the clock was set.
package times

import "time"

// Min returns the earlier of two times.
func Min(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Max returns the later of two times.
func Max(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
