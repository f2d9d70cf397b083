package episodes

// churn bounds how many episodes a party opens over time. Those that have ended
// are listed and notified for KeepResolved: without a bound, lines that open and
// clear alerts in turn would fill the memory and the receivers.
type churn struct {
	limit   float64 // openings of a party in KeepResolved, all at once or spread
	parties map[churnKey]*openings
	swept   int // parties after the last sweep
}

type churnKey struct {
	class class
	party string
}

// openings counts those of a party. The count drains steadily.
type openings struct {
	drain
	rules map[*ruleState]*drain
}

type drain struct {
	n  float64
	at int64
}

const (
	// churnFactor is how many times MaxPerNamespace a party may open in
	// KeepResolved.
	churnFactor = 4
	// calmShare of that is for each rule, however busy the other rules of the
	// party are.
	calmShare = 8
)

func newChurn(cfg Config) churn {
	return churn{limit: float64(churnFactor * cfg.MaxPerNamespace), parties: map[churnKey]*openings{}}
}

// level returns the count at a time and notes it.
func (d *drain) level(now int64, limit float64) float64 {
	if passed := now - d.at; passed > 0 {
		d.n = max(0, d.n-limit*float64(passed)/float64(KeepResolved))
	}
	d.at = now
	return d.n
}

// spent reports whether a party has opened too many episodes for one more of a
// rule.
func (c *churn) spent(rs *ruleState, party string, now int64) bool {
	o := c.parties[churnKey{rs.slots.class, party}]
	if o == nil || o.level(now, c.limit)+1 <= c.limit {
		return false
	}
	own := o.rules[rs]
	return own != nil && own.level(now, c.limit)+1 > c.limit/calmShare
}

// count counts an opening.
func (c *churn) count(rs *ruleState, party string, now int64) {
	key := churnKey{rs.slots.class, party}
	o := c.parties[key]
	if o == nil {
		c.sweep(now)
		o = &openings{rules: map[*ruleState]*drain{}}
		c.parties[key] = o
	}
	own := o.rules[rs]
	if own == nil {
		own = &drain{}
		o.rules[rs] = own
	}
	for _, d := range []*drain{&o.drain, own} {
		d.n = d.level(now, c.limit) + 1
	}
}

// sweep forgets the parties whose count has drained, now and then.
func (c *churn) sweep(now int64) {
	if len(c.parties) < 2*c.swept+64 {
		return
	}
	for key, o := range c.parties {
		if o.level(now, c.limit) == 0 {
			delete(c.parties, key)
		}
	}
	c.swept = len(c.parties)
}
