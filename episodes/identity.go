package episodes

import (
	"hash/fnv"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"crowsnest/internal/text"
	"crowsnest/matcher"
	"crowsnest/rules"
)

// Bounds of what is remembered of streams.
const (
	maxOrigins    = 256  // streams; a power of two
	maxIdentities = 1024 // combinations of values
)

// identityMark begins the part of a key that holds the identity. Values of `by`
// are valid UTF-8, so they never contain it.
const identityMark = 0xff

// identity is the values that the labels of Config.Identity have in a stream. It
// belongs to every key of every rule. Nil means that the stream has none of the
// labels; that is a value of its own.
type identity struct {
	values []string // in order of Config.Identity; "" where the stream has no such label
	key    string   // the same as the end of a key
}

// suffix is what the identity adds to a key.
func (id *identity) suffix() string {
	if id == nil {
		return ""
	}
	return id.key
}

// saved returns the values for a snapshot.
func (id *identity) saved() []string {
	if id == nil {
		return nil
	}
	return id.values
}

// origin holds what depends on the stream of a line alone.
type origin struct {
	labels  matcher.Labels // kept, so that no other map takes their address
	address uintptr
	who     *identity
	party   string // charged for its lines
	log     uint64 // as logID
}

// origins remembers the streams of the newest lines by the address of their
// labels: what depends on the stream alone is not computed for each line.
type origins struct {
	names  []string // Config.Identity
	recent [maxOrigins]origin
	// known shares equal identities, so that a key costs a pointer.
	known *simplelru.LRU[string, *identity]
}

func newOrigins(names []string) origins {
	return origins{names: names, known: newLRU[string, *identity](maxIdentities)}
}

// of returns the origin with labels at an address.
func (os *origins) of(labels matcher.Labels, address uintptr) *origin {
	o := &os.recent[mix(uint64(address), 1)%maxOrigins]
	if o.address != address {
		who := os.identityOf(labels)
		*o = origin{labels, address, who, partyOf(labels["namespace"], who), logID(labels)}
	}
	return o
}

// addressOf identifies labels for as long as they are kept.
func addressOf(labels matcher.Labels) uintptr { return reflect.ValueOf(labels).Pointer() }

// identityOf reads the identity of a stream from its labels, never from its lines.
func (os *origins) identityOf(labels matcher.Labels) *identity {
	values := make([]string, len(os.names))
	for i, name := range os.names {
		values[i] = text.Truncate(strings.ToValidUTF8(labels[name], "\uFFFD"), maxValue)
	}
	return os.share(values)
}

// share returns the identity with these values, which it keeps.
func (os *origins) share(values []string) *identity {
	if !slices.ContainsFunc(values, func(v string) bool { return v != "" }) {
		return nil
	}
	key := []byte{identityMark}
	for _, v := range values {
		key = append(append(key, byte(len(v)>>8), byte(len(v))), v...)
	}
	id, ok := os.known.Get(string(key))
	if !ok {
		for i := range values {
			values[i] = strings.Clone(values[i])
		}
		id = &identity{values: values, key: string(key)}
		os.known.Add(id.key, id)
	}
	return id
}

// restored returns the identity of values that a snapshot holds for names. Labels that
// are no longer part of the identity are omitted.
func (os *origins) restored(names, values []string) *identity {
	out := make([]string, len(os.names))
	for i, name := range os.names {
		if k := slices.Index(names, name); k >= 0 && k < len(values) {
			out[i] = values[k]
		}
	}
	return os.share(out)
}

// partyOf returns the party that is charged for the lines of a stream: the values of
// its identity and its namespace, as the source states it. It is "" if the stream has
// neither.
func partyOf(namespace string, who *identity) string {
	party := text.Truncate(strings.ToValidUTF8(namespace, "\uFFFD"), maxValue)
	for i := len(who.saved()) - 1; i >= 0; i-- {
		if v := who.values[i]; v != "" {
			party = v + "/" + party
		}
	}
	return party
}

// identify computes the labels of an episode, which are its identity.
func (e *Engine) identify(ep *episode) {
	r := ep.rs.rule
	by := map[string]string{}
	for i, name := range r.By {
		by[name] = ep.values[i]
	}
	ep.labels = e.labels(r, by)
	if !ep.nameless {
		ep.who.addTo(ep.labels, e.cfg.Identity)
	}
	ep.print = printOf(ep.labels)
	ep.setApart(e.cfg.Identity)
}

// labels executes the templates of a rule's labels.
func (e *Engine) labels(r *rules.Rule, by map[string]string) map[string]string {
	labels := maps.Clone(by)
	for _, l := range r.Labels {
		labels[l.Name] = text.Truncate(e.renderer.Expand(l.Template, rules.TemplateData{Labels: by}), maxValue)
	}
	labels["alertname"] = r.Alert
	labels["severity"] = string(r.Severity)
	labels["resolves"] = r.Resolves()
	maps.DeleteFunc(labels, func(_, v string) bool { return v == "" })
	return labels
}

// printOf hashes labels in order of their names.
func printOf(labels map[string]string) Fingerprint {
	h := fnv.New64a()
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		h.Write([]byte(name))
		h.Write([]byte{0xff})
		h.Write([]byte(labels[name]))
		h.Write([]byte{0xff})
	}
	return Fingerprint(h.Sum64())
}

// addTo adds the labels of an identity, by name, to those of an alert. Where the rule
// gives a label of that name another value, the stream's is the label stream_NAME.
func (id *identity) addTo(labels map[string]string, names []string) {
	for i, v := range id.saved() {
		name := names[i]
		if v == "" || labels[name] == v {
			continue
		}
		for labels[name] != "" {
			name = "stream_" + name
		}
		labels[name] = v
	}
}

// setApart adds labels to an episode if an open one of its rule has the same labels and
// another key: `by` captured the value of an identity label from the lines of one, and
// the stream states it for the other.
func (ep *episode) setApart(names []string) {
	same := func(o *episode) bool { return o != ep && o.print == ep.print }
	if !ep.rs.ambiguous || !slices.ContainsFunc(slices.Collect(maps.Values(ep.rs.open)), same) {
		return
	}
	for i, name := range names {
		if ep.labels[name] == "" {
			continue
		}
		ep.labels["stream_"+name] = "none"
		if ep.who != nil && ep.who.values[i] != "" {
			ep.labels["stream_"+name] = ep.who.values[i]
		}
	}
	ep.print = printOf(ep.labels)
}
