package fair

import "time"

// Churn bounds how many entries a party opens over time, even if each of them has ended.
// The counts drain steadily.
type Churn struct {
	limit   float64 // openings of a party in period, all at once or spread
	period  float64 // in nanoseconds
	parties map[churnKey]*openings
	swept   int // parties after the last sweep
}

type churnKey struct {
	class Class
	party string
}

// openings counts the openings of a party.
type openings struct {
	drain
	shelves map[*Shelf]*drain
}

type drain struct {
	n  float64
	at int64
}

// calmShare is the divisor of the limit that gives the part reserved for each shelf,
// however busy the other shelves of the party are.
const calmShare = 8

// NewChurn returns the bound of limit openings of a party in a period.
func NewChurn(limit int, period time.Duration) *Churn {
	return &Churn{limit: float64(limit), period: float64(period), parties: map[churnKey]*openings{}}
}

// level drains the count up to a time and returns it.
func (c *Churn) level(d *drain, now int64) float64 {
	if passed := now - d.at; passed > 0 {
		d.n = max(0, d.n-c.limit*float64(passed)/c.period)
	}
	d.at = now
	return d.n
}

// Spent reports whether a party has opened too many entries for one more on a shelf.
func (c *Churn) Spent(s *Shelf, party string, now int64) bool {
	o := c.parties[churnKey{s.class, party}]
	if o == nil || c.level(&o.drain, now)+1 <= c.limit {
		return false
	}
	own := o.shelves[s]
	return own != nil && c.level(own, now)+1 > c.limit/calmShare
}

// Count counts an opening.
func (c *Churn) Count(s *Shelf, party string, now int64) {
	key := churnKey{s.class, party}
	o := c.parties[key]
	if o == nil {
		c.sweep(now)
		o = &openings{shelves: map[*Shelf]*drain{}}
		c.parties[key] = o
	}
	own := o.shelves[s]
	if own == nil {
		own = &drain{}
		o.shelves[s] = own
	}
	for _, d := range []*drain{&o.drain, own} {
		d.n = c.level(d, now) + 1
	}
}

// sweep forgets the parties whose count has drained, now and then.
func (c *Churn) sweep(now int64) {
	if len(c.parties) < 2*c.swept+64 {
		return
	}
	for key, o := range c.parties {
		if c.level(&o.drain, now) == 0 {
			delete(c.parties, key)
		}
	}
	c.swept = len(c.parties)
}

// Parties returns how many parties have a count.
func (c *Churn) Parties() int { return len(c.parties) }
