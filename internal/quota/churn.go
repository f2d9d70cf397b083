package quota

import "time"

// Churn bounds the number of entries that a tenant opens in a period, including entries that
// have already ended. Each group of a tenant may use an eighth of the limit, even if the
// tenant's other groups have used up the whole limit.
type Churn struct {
	limit  int
	period int64 // length of the period in nanoseconds
	since  int64 // time when the counts began
	counts map[churnKey]int
}

// churnKey identifies a count. The count for all groups of a tenant has no group.
type churnKey struct {
	class  Class
	tenant string
	group  *Group
}

// NewChurn returns a bound of limit entries that each tenant may open in a period.
func NewChurn(limit int, period time.Duration) *Churn {
	return &Churn{limit: limit, period: int64(period), counts: map[churnKey]int{}}
}

// IsSpent reports whether a tenant has opened so many entries that it may not open another one
// in the group.
func (c *Churn) IsSpent(g *Group, tenant string, now int64) bool {
	if passed := now - c.since; max(passed, -passed) >= c.period {
		c.since = now
		clear(c.counts)
	}
	return c.counts[churnKey{g.class, tenant, nil}] >= c.limit && c.counts[churnKey{g.class, tenant, g}]+1 > c.limit/8
}

// Count counts an entry that a tenant opens. IsSpent must have been called before with the same
// time.
func (c *Churn) Count(g *Group, tenant string) {
	c.counts[churnKey{g.class, tenant, nil}]++
	c.counts[churnKey{g.class, tenant, g}]++
}
