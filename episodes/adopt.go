package episodes

import (
	"slices"

	"crowsnest/episodes/internal/fair"
)

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

// nameless returns the key of the hit without its identity.
func (b *intake) nameless() string { return string(b.key[:len(b.key)-len(b.who.suffix())]) }

// adopt pins a loose episode to the identity of the hit if its key is the same
// otherwise, and returns it; nil if there is none.
func (rs *ruleState) adopt(b *intake) *episode {
	if rs.loose == 0 || b.who == nil {
		return nil
	}
	ep := rs.open[b.nameless()]
	if ep == nil || !ep.loose {
		return nil
	}
	party := ep.slot.Party()
	ep.remove()
	ep.key, ep.who, ep.restored = string(b.key), b.who, restored{nameless: true}
	if ep.window != nil {
		ep.window.who = ep.who
	}
	ep.add(party)
	ep.due.arm()
	return ep
}

// adoptWindow does the same for a window without an episode.
func (rs *ruleState) adoptWindow(b *intake) *fair.Item[*keyWindow] {
	if b.who == nil {
		return nil
	}
	x := rs.windows.Items[b.nameless()]
	if x == nil || !x.Value.loose {
		return nil
	}
	w, party := x.Value, x.Party()
	rs.windows.Delete(x.Key)
	w.who, w.loose = b.who, false
	w.clears, _ = rs.shared(rs.clearAt, w.key, w.who)
	return rs.windows.Add(string(b.key), party, w, w.Size())
}

// concerned returns the episodes that a clear or unless line applies to: those that
// share key, and the loose ones that share it except for the identity.
func (rs *ruleState) concerned(x index, at []int, key string, values []string, who *identity) []*episode {
	out := rs.sharing(x, key)
	if rs.loose == 0 || who == nil {
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
