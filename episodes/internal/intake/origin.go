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

// Bounds of the remembered streams.
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
	values []string // values in the order of the labels; empty where the stream lacks the label
	key    string   // the same values in the form of the end of a key
}

// KeySuffix is the suffix that the identity adds to a key.
func (id *Identity) KeySuffix() string {
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
	Labels matcher.Labels // kept so that no other map can have the same address
	Who    *Identity
	// Party is charged for the lines of the stream. It consists of the identity values and the
	// namespace that the source states. It is empty if the stream has neither.
	Party string

	address uintptr
	log     uint64 // the result of logID
}

// origins remembers the streams of the newest lines by the address of their labels, so that
// values that depend only on the stream are not computed for each line.
type origins struct {
	names  []string // names of the identity labels
	recent [maxOrigins]Origin
	// known lets streams with equal identities share one, so that an identity in a key costs
	// only a pointer.
	known *simplelru.LRU[string, *Identity]
}

func newOrigins(names []string) origins {
	return origins{names: names, known: quota.NewLRU[string, *Identity](maxIdentities)}
}

// findOrigin returns the origin of the stream with these labels, which are at address.
func (os *origins) findOrigin(labels matcher.Labels, address uintptr) *Origin {
	o := &os.recent[MixHash(uint64(address), 1)%maxOrigins]
	if o.address != address {
		who := os.findIdentity(labels)
		*o = Origin{labels, who, tenantOf(labels["namespace"], who), address, logID(labels)}
	}
	return o
}

// labelsAddress returns the address of labels. It identifies them as long as they are kept.
func labelsAddress(labels matcher.Labels) uintptr { return reflect.ValueOf(labels).Pointer() }

// Identity returns the identity of a stream. It depends on the stream's labels, never on
// its lines.
func (b *Intake) Identity(labels matcher.Labels) *Identity { return b.origins.findIdentity(labels) }

func (os *origins) findIdentity(labels matcher.Labels) *Identity {
	values := make([]string, len(os.names))
	for i, name := range os.names {
		values[i] = sanitiseLabel(labels[name])
	}
	return os.internIdentity(values)
}

// sanitiseLabel turns a label of a stream into a value of a key.
func sanitiseLabel(v string) string { return text.Truncate(strings.ToValidUTF8(v, "\uFFFD"), MaxValue) }

// internIdentity returns the shared identity with these values, and remembers it.
func (os *origins) internIdentity(values []string) *Identity {
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

// SavedIdentity returns the identity whose values a snapshot holds for the labels names. It
// omits labels that are no longer part of the identity.
func (b *Intake) SavedIdentity(names, values []string) *Identity {
	out := make([]string, len(b.origins.names))
	for i, name := range b.origins.names {
		if k := slices.Index(names, name); k >= 0 && k < len(values) {
			out[i] = values[k]
		}
	}
	return b.origins.internIdentity(out)
}

func tenantOf(namespace string, who *Identity) string {
	party := sanitiseLabel(namespace)
	for _, v := range slices.Backward(who.Values()) {
		if v != "" {
			party = v + "/" + party
		}
	}
	return party
}
