package quota

import "time"

// Churn limits the number of entries that a tenant opens within a period, including entries that have already ended.
// Each group of a tenant may use an eighth of the limit, even if the tenant's other groups have used up the whole
// limit.
type Churn struct {
	limit  int
	period int64 // length of the period in nanoseconds
	since  int64 // start of the period
	counts map[churnKey]int
}

// churnKey identifies a count of a tenant in a group. The group is nil for the total of all groups.
type churnKey struct {
	class  Class
	tenant string
	group  *Group
}

// NewChurn returns a limit for the entries that each tenant may open within a period.
func NewChurn(limit int, period time.Duration) *Churn {
	return &Churn{limit: limit, period: int64(period), counts: map[churnKey]int{}}
}

// IsSpent reports whether a tenant has opened so many entries that it may not open another one in the group now.
func (c *Churn) IsSpent(g *Group, tenant string, now int64) bool {
	if passed := now - c.since; max(passed, -passed) >= c.period {
		c.since = now
		clear(c.counts)
	}
	return c.counts[churnKey{g.class, tenant, nil}] >= c.limit && c.counts[churnKey{g.class, tenant, g}]+1 > c.limit/8
}

// Count counts an entry that a tenant opens. The caller must have called IsSpent before, with the same time.
func (c *Churn) Count(g *Group, tenant string) {
	c.counts[churnKey{g.class, tenant, nil}]++
	c.counts[churnKey{g.class, tenant, g}]++
}
