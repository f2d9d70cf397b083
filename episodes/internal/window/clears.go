package window

import (
	"math"
	"slices"
	"time"
)

// Limits of the clear lines that are remembered.
const (
	// rememberClears limits how far a late line may be behind the watermark to be compared with the clear lines around
	// it.
	rememberClears = time.Hour
	maxClears      = 64 // maximum number of clear lines per key, in addition to the newest
)

// Special values of times.
const (
	NoTime  = math.MinInt64 / 2 // a time before every event; as a result it means that nothing was read, cleared or muted
	Forever = math.MaxInt64     // a time after every event; as the end of a gap it means that no clear line follows
)

// Gap is the time between two consecutive clear lines, at Lo and Hi.
type Gap struct{ Lo, Hi int64 }

// Clears holds the clear lines of one key. Clear lines divide time into gaps, and all lines of one failure lie in the
// same gap.
type Clears struct {
	Newest int64
	Since  int64 // time up to which clear lines may have been dropped
	// Older are the clear lines before Newest that end a gap longer than `for`. Other clear lines are not needed,
	// because no failure fires within a shorter gap. Older is nil if there is none.
	Older *Times
}

// Add adds a clear line. wait is the `for` of the rule. Clear lines long before the watermark are dropped.
func (c Clears) Add(t int64, wait time.Duration, watermark int64) Clears {
	if c.Newest == NoTime {
		return Clears{Newest: t, Since: c.Since}
	}
	if t == c.Newest || t <= c.Since {
		return c
	}
	if c.Older == nil {
		c.Older = new(Times)
	}
	all := append(*c.Older, c.Newest)
	i, found := slices.BinarySearch(all, t)
	if !found {
		all = slices.Insert(all, i, t)
	}
	for k := min(i+1, len(all)-2); k >= max(i-1, 1); k-- {
		if all[k+1]-all[k-1] <= int64(wait) {
			all = slices.Delete(all, k, k+1)
		}
	}
	last := len(all) - 1
	c.Newest, all = all[last], all[:last]
	for len(all) > maxClears || len(all) > 0 && all[0] < watermark-int64(rememberClears) {
		c.Since, all = all[0], all[1:]
	}
	*c.Older = all
	return c
}

// GapAround returns the gap that contains t. It returns false if t is the time of a clear line, or if a clear line
// after t may have been dropped.
func (c Clears) GapAround(t int64) (g Gap, alive bool) {
	if t > c.Newest {
		return Gap{c.Newest, Forever}, true
	}
	if t == c.Newest || t <= c.Since {
		return Gap{}, false
	}
	g = Gap{c.Since, c.Newest}
	if c.Older != nil {
		i := c.Older.IndexAfter(t)
		if i < len(*c.Older) {
			g.Hi = (*c.Older)[i]
		}
		if i > 0 {
			g.Lo = (*c.Older)[i-1]
		}
	}
	return g, g.Lo < t
}

// NewestBefore returns the newest clear line before t.
func (c Clears) NewestBefore(t int64) int64 {
	if t > c.Newest {
		return c.Newest
	}
	if c.Older != nil {
		if i := c.Older.IndexAfter(t - 1); i > 0 {
			return (*c.Older)[i-1]
		}
	}
	return c.Since
}

// Move adds delta to all times.
func (c Clears) Move(delta int64) Clears {
	c.Newest += delta
	if c.Since != NoTime {
		c.Since += delta
	}
	if c.Older != nil {
		c.Older.Move(delta)
	}
	return c
}

// NoClears is the state before the first clear line.
func NoClears() Clears { return Clears{Newest: NoTime, Since: NoTime} }
