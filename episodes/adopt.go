package episodes

import "crowsnest/internal/quota"

// restored marks an episode that was read from a snapshot.
type restored struct {
	// loose is set if the snapshot was written without all labels of the identity. The
	// first trigger whose key is equal apart from the identity pins the episode to its own
	// identity; until then the episode matches every identity.
	loose bool
	// nameless is set on a pinned episode, because its alert keeps the labels with which it was
	// notified.
	nameless bool
	// firedBefore is set on an episode that fired before it was restored.
	firedBefore bool
}

// adoptLoose finds the loose episode whose key equals that of the hit apart from the identity,
// pins it to the identity of the hit and returns it. It returns nil if there is none.
func (rs *ruleState) adoptLoose() *episode {
	in := &rs.in
	if rs.loose == 0 || in.Who == nil {
		return nil
	}
	ep := rs.open[in.KeyWithoutIdentity()]
	if ep == nil || !ep.loose {
		return nil
	}
	party := ep.slot.Tenant()
	ep.remove()
	ep.key, ep.who, ep.restored = string(in.Key), in.Who, restored{nameless: true}
	if ep.window != nil {
		ep.window.who = ep.who
	}
	ep.add(party)
	ep.armDeadline()
	return ep
}

// adoptWindow finds the loose window whose key equals that of the hit apart from the identity,
// pins it and returns it. It returns nil if there is none.
func (rs *ruleState) adoptWindow() *quota.Item[*keyWindow] {
	in := &rs.in
	if in.Who == nil {
		return nil
	}
	x := rs.windows.Items[in.KeyWithoutIdentity()]
	if x == nil || !x.Value.loose {
		return nil
	}
	w, party := x.Value, x.Tenant()
	rs.windows.Delete(x.Key)
	w.who, w.loose = in.Who, false
	w.clears, _ = rs.clear.joinKey(w.key, w.who)
	return rs.windows.Add(string(in.Key), party, w, w.Size())
}
