package episodes

import (
	"slices"

	"crowsnest/episodes/internal/intake"
	"crowsnest/internal/quota"
	"crowsnest/redact"
	"crowsnest/rules"
)

// linesByKey holds the clear lines or the unless lines of a rule. The key of such a line consists of the values of `same`
// and the identity, and selects the episodes and windows to which the line applies.
type linesByKey[V any] struct {
	at      []int // indexes of the names in `same` within `by`
	lenient bool  // copy of Config.Unlabelled
	added   int   // index in `by` of the namespace that rules.ClearOrUnless.NamespaceAdded added, or -1
	ofKey   bool  // whether `same` equals `by`
	// keyOf returns the key of the clear or unless lines that apply to an episode.
	keyOf func(ep *episode) string

	lines *quota.Cache[V] // value for each key
	// older holds lines from a snapshot that was written without all labels of the identity. Its keys have no identity.
	// The lines apply to the streams of every identity, as they did when they were saved.
	older map[string]V
}

func newBeside[V any](r *rules.Rule, a *rules.ClearOrUnless, lenient bool, keyOf func(*episode) string) linesByKey[V] {
	x := linesByKey[V]{at: []int{}, lenient: lenient, added: -1, ofKey: true, keyOf: keyOf}
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
	x.ofKey = len(a.Same) == len(r.By)
	return x
}

// joinKey returns the key that consists of the values of `same` and the identity. missing reports whether a value is
// missing.
func (x *linesByKey[V]) joinKey(values []redact.Text, who *intake.Identity) (key string, missing bool) {
	for _, i := range x.at {
		missing = missing || values[i] == "" && !x.lenient && i != x.added
	}
	var buf [128]byte
	return string(append(intake.AppendKey(buf[:0], values, x.at), who.KeySuffix()...)), missing
}

// get returns the value of a key, and false if there is none. values are the values of `by` from which the key was
// made.
func (x *linesByKey[V]) get(key string, values []redact.Text) (v V, ok bool) {
	if known := x.lines.Items[key]; known != nil {
		return known.Value, true
	}
	if x.older != nil {
		key, _ = x.joinKey(values, nil)
		v, ok = x.older[key]
	}
	return v, ok
}

// sharingEpisodes returns the open episodes of a rule that a line with this key applies to, sorted
// by start, then key. The slice belongs to the caller.
func (x *linesByKey[V]) sharingEpisodes(rs *ruleState, key string) []*episode {
	if ep := rs.open[key]; x.ofKey && ep != nil {
		return []*episode{ep}
	} else if x.ofKey {
		return nil
	}
	var out []*episode
	for _, ep := range rs.open {
		if x.keyOf(ep) == key {
			out = append(out, ep)
		}
	}
	return inOrder(out)
}

// concernedEpisodes returns the open episodes to which a line with this key and these values applies. These are the
// episodes with the same key, and the loose episodes whose key differs only in the identity.
func (x *linesByKey[V]) concernedEpisodes(rs *ruleState, key string, values []redact.Text) []*episode {
	out := x.sharingEpisodes(rs, key)
	if rs.partialEpisodes == 0 || rs.in.StreamIdentity == nil {
		return out
	}
	any, _ := x.joinKey(values, nil)
	for _, ep := range x.sharingEpisodes(rs, any) {
		if ep.partialIdentity {
			out = append(out, ep)
		}
	}
	return out
}
