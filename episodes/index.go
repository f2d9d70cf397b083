package episodes

import (
	"slices"

	"crowsnest/episodes/internal/fair"
	"crowsnest/rules"
)

// index finds the open episodes that share the values of `same` with a line, by
// these values. It is nil where `same` is the whole key: the key finds them.
type index map[string][]*episode

func newIndex(r *rules.Rule, a *rules.ClearOrUnless) index {
	if a == nil || len(a.Same) == len(r.By) {
		return nil
	}
	return index{}
}

func (x index) add(key string, ep *episode) {
	if x != nil {
		x[key] = append(x[key], ep)
	}
}

func (x index) remove(key string, ep *episode) {
	if x == nil {
		return
	}
	if x[key] = slices.DeleteFunc(x[key], func(o *episode) bool { return o == ep }); len(x[key]) == 0 {
		delete(x, key)
	}
}

// sharing returns the episodes that a line with this key of `same` applies to, in
// order of start, then key. The slice belongs to the caller.
func (rs *ruleState) sharing(x index, key string) []*episode {
	if x != nil {
		return inOrder(slices.Clone(x[key]))
	}
	if ep := rs.open[key]; ep != nil {
		return []*episode{ep}
	}
	return nil
}

// emptied drops the lines up to t from the windows that a clear line applies to.
func (rs *ruleState) emptied(key string, t int64) {
	drop := func(x *fair.Item[*keyWindow]) {
		x.Value.Drop(t)
		rs.windows.Resize(&x.Entry, x.Value.Size())
	}
	if rs.byClear == nil {
		if x := rs.windows.Items[key]; x != nil {
			drop(x)
		}
		return
	}
	for _, x := range rs.windows.Items {
		if x.Value.clears == key {
			drop(x)
		}
	}
}
