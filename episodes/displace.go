package episodes

import "slices"

// place finds a place for an episode of a party, or returns the limit that leaves none.
// At a limit, a party (or within one party, a rule) that has more open episodes loses
// one: the overflow alert of its rule covers it. An episode is never displaced for a
// party that has as many.
func (e *Engine) place(rs *ruleState, party string, now int64) (l limit, full bool) {
	own := rs.slots.entries(party)
	var give []*cell
	if a := e.slots.accounts[rs.slots.class][party]; a != nil && party != "" && a.load[inEntries] >= e.cfg.MaxPerNamespace {
		c := a.heaviest(own)
		if c == nil {
			return limit{of: ofNamespace, n: e.cfg.MaxPerNamespace, namespace: party}, true
		}
		give = append(give, c)
	}
	switch {
	case len(rs.open) >= rs.rule.Limit:
		c := rs.slots.cells.heaviest(own)
		if c == nil {
			return limit{of: ofRule, n: rs.rule.Limit}, true
		}
		give = append(give, c)
	case give == nil && e.slots.isFull(rs.slots.class):
		c := e.slots.heaviest(rs.slots.class, party, own)
		if c == nil {
			return limit{of: ofAll, n: e.cfg.MaxActive}, true
		}
		give = append(give, c)
	}
	if party != "" && e.churn.spent(rs, party, now) {
		return limit{of: ofChurn, n: int(e.churn.limit), namespace: party}, true
	}
	for _, c := range give {
		e.displace(c, now)
	}
	e.churn.count(rs, party, now)
	return limit{}, false
}

// isFull reports whether there is no room for one more entry of a class.
func (r *room) isFull(c class) bool {
	return c == ordinary && r.used[ordinary][inEntries] >= r.max[inEntries] ||
		r.total() >= r.max[inEntries]+r.reserve[inEntries]
}

// heaviest returns the cell that has the most, if that is more than own and one.
func (r *ranking) heaviest(own int) *cell {
	if len(r.nodes) == 0 {
		return nil
	}
	if n := r.first(); n.load[inEntries] > own+1 {
		return n.cell
	}
	return nil
}

func (a *account) heaviest(own int) *cell { return a.cells[inEntries].heaviest(own) }

// heaviest returns the cell that loses an entry for one more of a party, which has own
// of the same rule; nil: none has more.
func (r *room) heaviest(c class, party string, own int) *cell {
	if r.used[c][inEntries] == 0 {
		return nil
	}
	a := r.ranks[c][inEntries].first().account
	if a == r.accounts[c][party] {
		return a.heaviest(own)
	}
	if a.load[inEntries] <= r.entries(c, party)+1 {
		return nil
	}
	return a.cells[inEntries].first().cell
}

// displace ends the episode of a cell without a trigger for the longest time. A pending
// one goes first: nobody was notified of it.
func (e *Engine) displace(c *cell, now int64) {
	rs, x := c.shelf.rs, c.oldest
	for y := x; y != nil; y = y.newer {
		if rs.open[y.key].state == StatePending {
			x = y
			break
		}
	}
	ep, l := rs.open[x.key], limit{of: ofShare, namespace: c.party}
	e.evictions.note(c.party, rs.rule.Alert, EvictedAlerts)
	e.close(ep, ReasonDisplaced, now, now)
	e.refuse(rs, ep.key, ep.newest, l, now)
}

// thin keeps the windows of open episodes within their bound: the party that has
// the most lines in them loses the older half of those of one episode.
func (e *Engine) thin() {
	for {
		c, over := e.slots.over(inLines)
		if !over {
			return
		}
		largest := e.slots.ranks[c][inLines].first().account.cells[inLines].first().cell
		x := largest.oldest
		for y := x; y != nil; y = y.newer {
			if y.lines > x.lines {
				x = y
			}
		}
		rs := largest.shelf.rs
		w := rs.open[x.key].window
		w.halve()
		if w.size() == x.lines {
			return // one line of each kind is always kept
		}
		e.evictions.note(largest.party, rs.rule.Alert, EvictedWindows)
		rs.slots.resize(x, w.size())
	}
}

// halve drops the older half of what the window holds.
func (w *window) halve() {
	for i := range w.steps {
		w.extra -= w.steps[i].dropFirst(len(w.steps[i]) / 2)
	}
	w.extra -= w.values.dropFirst(len(w.values) / 2)
	w.lines = slices.Delete(w.lines, 0, len(w.lines)/2)
}
