package episodes

import "slices"

// restored marks an episode that was read from a snapshot.
type restored struct {
	// loose is set if the program that wrote the snapshot did not know all labels
	// of the identity. The first trigger whose key is the same but for the
	// identity pins the episode to that identity; until then it belongs to any.
	loose bool
	// nameless is set on an episode that was pinned: its alert keeps the labels
	// with which it was notified.
	nameless bool
}

// older is the clear and unless lines of a snapshot that does not know the whole
// identity: they count for the streams of every identity, as they did then.
type older struct {
	cleared map[string]int64
	muted   map[string][]int64
}

func newOlder(r ruleSnapshot) *older {
	out := &older{cleared: map[string]int64{}, muted: map[string][]int64{}}
	for _, c := range r.Cleared {
		out.cleared[string(c.Key)] = c.Value
	}
	for _, m := range r.Muted {
		out.muted[string(m.Key)] = slices.Clone(m.Value)
	}
	return out
}

// knows reports whether names holds every label of the identity.
func (e *Engine) knows(names []string) bool {
	return !slices.ContainsFunc(e.cfg.Identity, func(name string) bool { return !slices.Contains(names, name) })
}

// restoredIdentity returns the identity of values that a snapshot holds for
// names. Labels that are no longer part of the identity are omitted.
func (e *Engine) restoredIdentity(names, values []string) *identity {
	out := make([]string, len(e.cfg.Identity))
	for i, name := range e.cfg.Identity {
		if k := slices.Index(names, name); k >= 0 && k < len(values) {
			out[i] = values[k]
		}
	}
	return e.shareIdentity(out)
}

// nameless returns the key of the batch without its identity.
func (b *batch) nameless() string { return string(b.key[:len(b.key)-len(b.who.suffix())]) }

// adopt pins a loose episode to the identity of the batch if its key is the same
// otherwise, and returns it; nil if there is none.
func (e *Engine) adopt(rs *ruleState) *episode {
	if rs.loose == 0 || e.batch.who == nil {
		return nil
	}
	ep := rs.open[e.batch.nameless()]
	if ep == nil || !ep.loose {
		return nil
	}
	party := ep.slot.cell.party
	e.remove(ep)
	ep.key, ep.who, ep.restored = string(e.batch.key), e.batch.who, restored{nameless: true}
	if ep.window != nil {
		ep.window.who = ep.who
	}
	e.add(ep, party)
	ep.due.arm()
	return ep
}

// adoptWindow does the same for a window without an episode.
func (e *Engine) adoptWindow(rs *ruleState) *item[*window] {
	if e.batch.who == nil {
		return nil
	}
	x := rs.windows.items[e.batch.nameless()]
	if x == nil || !x.value.loose {
		return nil
	}
	w, party := x.value, x.cell.party
	rs.windows.delete(x.key)
	w.who, w.loose = e.batch.who, false
	w.clears, _ = rs.shared(rs.clearAt, w.key, w.who)
	return rs.windows.add(string(e.batch.key), party, w, w.size())
}

// concerned returns the episodes that a clear or unless line applies to: those that
// share key, and the loose ones that share it except for the identity.
func (e *Engine) concerned(rs *ruleState, x index, at []int, key string, values []string) []*episode {
	out := rs.sharing(x, key)
	if rs.loose == 0 || e.batch.who == nil {
		return out
	}
	any, _ := rs.shared(at, values, nil)
	for _, ep := range rs.sharing(x, any) {
		if ep.loose {
			out = append(out, ep)
		}
	}
	return out
}
