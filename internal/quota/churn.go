package quota

import "time"

// Churn bounds the number of entries that a tenant opens in a period, even if each of them
// has ended. Each group of a tenant has an eighth of the limit of its own, however busy the
// tenant's other groups are.
type Churn struct {
	limit  int
	period int64 // nanoseconds
	since  int64 // when the counts began
	counts map[churnKey]int
}

// churnKey has no group for the sum of a tenant.
type churnKey struct {
	class  Class
	tenant string
	group  *Group
}

// NewChurn returns a bound of limit openings of a tenant in a period.
func NewChurn(limit int, period time.Duration) *Churn {
	return &Churn{limit: limit, period: int64(period), counts: map[churnKey]int{}}
}

// Spent reports whether a tenant has opened too many entries for one more in a group.
func (c *Churn) Spent(g *Group, tenant string, now int64) bool {
	if passed := now - c.since; max(passed, -passed) >= c.period {
		c.since = now
		clear(c.counts)
	}
	return c.counts[churnKey{g.class, tenant, nil}] >= c.limit && c.counts[churnKey{g.class, tenant, g}]+1 > c.limit/8
}

// Count counts an opening. Spent was called before, with the same time.
func (c *Churn) Count(g *Group, tenant string) {
	c.counts[churnKey{g.class, tenant, nil}]++
	c.counts[churnKey{g.class, tenant, g}]++
}
