package episodes

import (
	"math"
	"slices"
	"time"
)

// Bounds of what is remembered of clear lines.
const (
	// rememberClears is how far behind the watermark a late line is compared with
	// the clear lines before and behind it.
	rememberClears = time.Hour
	maxClears      = 64 // per key, besides the newest
)

// forever is later than every event: no clear line is known.
const forever = math.MaxInt64

// gap is the time between two clear lines, at lo and hi.
type gap struct{ lo, hi int64 }

// clears holds the clear lines of one key of `same`. They divide time into gaps; a
// failure lies within one of them.
type clears struct {
	newest int64
	since  int64 // what is not newer may be forgotten
	// older are the ones before newest that end a gap of more than `for`: within a
	// shorter one nothing fires. Nil: there is none.
	older *times
}

// with adds a clear line. wait is `for`; lines before forget are dropped.
func (c clears) with(t, wait, forget int64) clears {
	if c.newest == noTime {
		return clears{newest: t, since: c.since}
	}
	if t == c.newest || t <= c.since {
		return c
	}
	if c.older == nil {
		c.older = new(times)
	}
	all := append(*c.older, c.newest)
	i, found := slices.BinarySearch(all, t)
	if !found {
		all = slices.Insert(all, i, t)
	}
	for k := min(i+1, len(all)-2); k >= max(i-1, 1); k-- {
		if all[k+1]-all[k-1] <= wait {
			all = slices.Delete(all, k, k+1)
		}
	}
	last := len(all) - 1
	c.newest, all = all[last], all[:last]
	for len(all) > maxClears || len(all) > 0 && all[0] < forget {
		c.since, all = all[0], all[1:]
	}
	*c.older = all
	return c
}

// gap returns the clear lines around t. It reports false if a clear line at t, or one
// that was dropped, ends the failure of a line at t.
func (c clears) gap(t int64) (g gap, alive bool) {
	if t > c.newest {
		return gap{c.newest, forever}, true
	}
	if t == c.newest || t <= c.since {
		return gap{}, false
	}
	g = gap{c.since, c.newest}
	if c.older != nil {
		i := c.older.since(t)
		if i < len(*c.older) {
			g.hi = (*c.older)[i]
		}
		if i > 0 {
			g.lo = (*c.older)[i-1]
		}
	}
	return g, g.lo < t
}

// before returns the newest clear line before t.
func (c clears) before(t int64) int64 {
	if t > c.newest {
		return c.newest
	}
	if c.older != nil {
		if i := c.older.since(t - 1); i > 0 {
			return (*c.older)[i-1]
		}
	}
	return c.since
}

// move adds by to all times.
func (c clears) move(by int64) clears {
	c.newest += by
	if c.since != noTime {
		c.since += by
	}
	if c.older != nil {
		for i := range *c.older {
			(*c.older)[i] += by
		}
	}
	return c
}

// noClears is the state before the first clear line.
func noClears() clears { return clears{newest: noTime, since: noTime} }

// clearsOf returns the clear lines that apply to a key.
func (e *Engine) clearsOf(rs *ruleState, ep *episode, values []string) clears {
	if rs.cleared.used == 0 {
		return noClears()
	}
	key, missing := "", false
	if ep != nil {
		key, missing = ep.clears, ep.noClear
	} else {
		key, missing = rs.shared(rs.clearAt, values, e.batch.who)
	}
	if missing {
		return noClears() // no clear line lacks a value
	}
	if x := rs.cleared.items[key]; x != nil {
		return x.value
	}
	if rs.older != nil {
		key, _ = rs.shared(rs.clearAt, values, nil)
		if t, ok := rs.older.cleared[key]; ok {
			return clears{newest: t, since: t}
		}
	}
	return noClears()
}

// clearSnapshot is clears as they are saved. Programs that knew the newest line alone
// read and wrote k, v and p.
type clearSnapshot struct {
	entrySnapshot[int64]
	Since *int64 `json:"s,omitempty"` // nil: v
	Older []byte `json:"o,omitempty"` // as packed
}

func saveClears(c clears, key, party string) clearSnapshot {
	out := clearSnapshot{entrySnapshot: entrySnapshot[int64]{[]byte(key), c.newest, party}, Since: &c.since}
	if c.older != nil {
		out.Older = c.older.pack()
	}
	return out
}

func (s clearSnapshot) clears() clears {
	c := clears{newest: s.Value, since: s.Value}
	if s.Since != nil {
		c.since = *s.Since
	}
	if older := unpack(s.Older); len(older) > 0 {
		c.older = &older
	}
	return c
}
