// Package instant converts times to nanoseconds since 1970.
package instant

import (
	"math"
	"time"
)

// end2200 is the end of the year 2200 in seconds since 1970.
const end2200 = 7289654400

// FromTime returns a time in nanoseconds since 1970, clamped to the range of an int64.
func FromTime(t time.Time) int64 {
	switch s := t.Unix(); {
	case s < 0:
		return 0
	case s >= end2200:
		return math.MaxInt64 / 2
	}
	return t.UnixNano()
}

// ToTime is the inverse of FromTime, in UTC.
func ToTime(ns int64) time.Time { return time.Unix(0, ns).UTC() }
