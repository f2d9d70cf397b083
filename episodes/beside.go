package episodes

import (
	"slices"

	"crowsnest/episodes/internal/intake"
	"crowsnest/internal/quota"
	"crowsnest/redact"
	"crowsnest/rules"
)

// beside holds the clear or the unless lines of a rule. A line has a key, made of the
// values of `same` and the identity, that finds the episodes and windows it applies to.
type beside[V any] struct {
	at      []int // indexes of the values of `same` in those of `by`
	lenient bool  // Config.Unlabelled
	added   int   // index of the value that rules.ClearOrUnless.NamespaceAdded refers to; -1: none
	// open finds the open episodes by key. It is nil if `same` equals `by`: then
	// ruleState.open finds them.
	open map[string][]*episode

	lines *quota.Cache[V] // what is remembered for each key
	// older holds the lines from a snapshot without all labels of the identity, by keys
	// without identity. They count for the streams of every identity, as they did when they
	// were saved.
	older map[string]V
}

func newBeside[V any](r *rules.Rule, a *rules.ClearOrUnless, lenient bool) beside[V] {
	x := beside[V]{at: []int{}, lenient: lenient, added: -1}
	if r.Clear != nil && r.Clear.NamespaceAdded || r.Unless != nil && r.Unless.NamespaceAdded {
		x.added = slices.Index(r.By, "namespace")
	}
	if a == nil {
		return x
	}
	for i, name := range r.By {
		if slices.Contains(a.Same, name) {
			x.at = append(x.at, i)
		}
	}
	if len(a.Same) != len(r.By) {
		x.open = map[string][]*episode{}
	}
	return x
}

// key joins the values of `same` and the identity, and reports whether one is missing.
func (x *beside[V]) key(values []redact.Text, who *intake.Identity) (key string, missing bool) {
	for _, i := range x.at {
		missing = missing || values[i] == "" && !x.lenient && i != x.added
	}
	var buf [128]byte
	return string(append(intake.AppendKey(buf[:0], values, x.at), who.Suffix()...)), missing
}

// of returns what is remembered for a key; false: nothing. values are the values of `by`
// that the key was made from.
func (x *beside[V]) of(key string, values []redact.Text) (v V, ok bool) {
	if known := x.lines.Items[key]; known != nil {
		return known.Value, true
	}
	if x.older != nil {
		key, _ = x.key(values, nil)
		v, ok = x.older[key]
	}
	return v, ok
}

func (x *beside[V]) add(key string, ep *episode) {
	if x.open != nil {
		x.open[key] = append(x.open[key], ep)
	}
}

func (x *beside[V]) remove(key string, ep *episode) {
	if x.open == nil {
		return
	}
	if x.open[key] = slices.DeleteFunc(x.open[key], func(o *episode) bool { return o == ep }); len(x.open[key]) == 0 {
		delete(x.open, key)
	}
}

// sharing returns the open episodes of a rule that a line with this key applies to, sorted
// by start, then key. The slice belongs to the caller.
func (x *beside[V]) sharing(rs *ruleState, key string) []*episode {
	if x.open != nil {
		return inOrder(slices.Clone(x.open[key]))
	}
	if ep := rs.open[key]; ep != nil {
		return []*episode{ep}
	}
	return nil
}

// concerned returns the open episodes that the hit, a line with this key and these values,
// applies to: those that share key, and the loose ones that share it except for the
// identity.
func (x *beside[V]) concerned(rs *ruleState, key string, values []redact.Text) []*episode {
	out := x.sharing(rs, key)
	if rs.loose == 0 || rs.in.Who == nil {
		return out
	}
	any, _ := x.key(values, nil)
	for _, ep := range x.sharing(rs, any) {
		if ep.loose {
			out = append(out, ep)
		}
	}
	return out
}
