package intake

import (
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"crowsnest/internal/quota"
	"crowsnest/internal/text"
	"crowsnest/matcher"
)

// Bounds of what is remembered of streams.
const (
	maxOrigins    = 256  // streams; a power of two
	maxIdentities = 1024 // combinations of values
)

// identityMark begins the part of a key that holds the identity. Values of `by`
// are valid UTF-8, so they never contain it.
const identityMark = 0xff

// Identity is the values that the identity labels have in a stream. It belongs to every
// key of every rule. Nil means that the stream has none of the labels; that is a value of
// its own. It does not change.
type Identity struct {
	values []string // values in the order of the labels; empty if the stream lacks the label
	key    string   // the same as the end of a key
}

// Suffix is what the identity adds to a key.
func (id *Identity) Suffix() string {
	if id == nil {
		return ""
	}
	return id.key
}

// Values returns the values in order of the labels, "" for a label that the stream lacks.
// They are read-only; nil if the stream has none of the labels.
func (id *Identity) Values() []string {
	if id == nil {
		return nil
	}
	return id.values
}

// AddTo adds the identity labels, called names, to the labels of an alert. Where the rule
// gives a label of that name another value, the stream's is the label stream_NAME.
func (id *Identity) AddTo(labels map[string]string, names []string) {
	for i, v := range id.Values() {
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

// Origin holds what depends on the stream of a line alone.
type Origin struct {
	Labels matcher.Labels // kept, so that no other map takes their address
	Who    *Identity
	// Party is charged for the lines of the stream: the values of its identity and its
	// namespace, as the source states them. It is "" if the stream has neither.
	Party string

	address uintptr
	log     uint64 // as logID
}

// origins remembers the streams of the newest lines by the address of their
// labels: what depends on the stream alone is not computed for each line.
type origins struct {
	names  []string // names of the identity labels
	recent [maxOrigins]Origin
	// known shares equal identities, so that a key costs a pointer.
	known *simplelru.LRU[string, *Identity]
}

func newOrigins(names []string) origins {
	return origins{names: names, known: quota.NewLRU[string, *Identity](maxIdentities)}
}

// of returns the origin with labels at an address.
func (os *origins) of(labels matcher.Labels, address uintptr) *Origin {
	o := &os.recent[Mix(uint64(address), 1)%maxOrigins]
	if o.address != address {
		who := os.identity(labels)
		*o = Origin{labels, who, partyOf(labels["namespace"], who), address, logID(labels)}
	}
	return o
}

// addressOf identifies labels for as long as they are kept.
func addressOf(labels matcher.Labels) uintptr { return reflect.ValueOf(labels).Pointer() }

// Identity returns the identity of a stream. It depends on the stream's labels, never on
// its lines.
func (b *Intake) Identity(labels matcher.Labels) *Identity { return b.origins.identity(labels) }

func (os *origins) identity(labels matcher.Labels) *Identity {
	values := make([]string, len(os.names))
	for i, name := range os.names {
		values[i] = valid(labels[name])
	}
	return os.share(values)
}

// valid makes a label of a stream a value.
func valid(v string) string { return text.Truncate(strings.ToValidUTF8(v, "\uFFFD"), MaxValue) }

// share returns the identity with these values, which it keeps.
func (os *origins) share(values []string) *Identity {
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
		id = &Identity{values: values, key: string(key)}
		os.known.Add(id.key, id)
	}
	return id
}

// SavedIdentity returns the identity of values that a snapshot holds for names. Labels
// that are no longer part of the identity are omitted.
func (b *Intake) SavedIdentity(names, values []string) *Identity {
	out := make([]string, len(b.origins.names))
	for i, name := range b.origins.names {
		if k := slices.Index(names, name); k >= 0 && k < len(values) {
			out[i] = values[k]
		}
	}
	return b.origins.share(out)
}

func partyOf(namespace string, who *Identity) string {
	party := valid(namespace)
	for _, v := range slices.Backward(who.Values()) {
		if v != "" {
			party = v + "/" + party
		}
	}
	return party
}
