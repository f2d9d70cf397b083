package episodes

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/golang-lru/v2/simplelru"

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
	recent [maxOrigins]origin
	// known shares equal identities, so that a key costs a pointer.
	known *simplelru.LRU[string, *identity]
}

func newOrigins() origins {
	// The size is positive, so there is no error.
	known, _ := simplelru.NewLRU[string, *identity](maxIdentities, nil)
	return origins{known: known}
}

// from makes a stream the origin of the batch.
func (e *Engine) from(labels matcher.Labels) {
	address := addressOf(labels)
	if address == e.batch.address {
		return // nearly always
	}
	o := &e.origins.recent[mix(uint64(address), 1)%maxOrigins]
	if o.address != address {
		who := e.identityOf(labels)
		*o = origin{labels, address, who, partyOf(labels["namespace"], who), logID(labels)}
	}
	e.batch.origin = *o
}

// addressOf identifies labels for as long as they are kept.
func addressOf(labels matcher.Labels) uintptr { return reflect.ValueOf(labels).Pointer() }

// identityOf reads the identity of a stream from its labels, never from its lines.
func (e *Engine) identityOf(labels matcher.Labels) *identity {
	values := make([]string, len(e.cfg.Identity))
	for i, name := range e.cfg.Identity {
		values[i] = truncate(strings.ToValidUTF8(labels[name], "\uFFFD"), maxValue)
	}
	return e.shareIdentity(values)
}

// shareIdentity returns the identity with these values, which it keeps.
func (e *Engine) shareIdentity(values []string) *identity {
	if !slices.ContainsFunc(values, func(v string) bool { return v != "" }) {
		return nil
	}
	key := []byte{identityMark}
	for _, v := range values {
		key = append(append(key, byte(len(v)>>8), byte(len(v))), v...)
	}
	id, ok := e.origins.known.Get(string(key))
	if !ok {
		for i := range values {
			values[i] = strings.Clone(values[i])
		}
		id = &identity{values: values, key: string(key)}
		e.origins.known.Add(id.key, id)
	}
	return id
}

// nameIdentity adds the labels of an identity to those of an alert. Where the
// rule gives a label of that name another value, the stream's is the label
// stream_NAME.
func (e *Engine) nameIdentity(id *identity, labels map[string]string) {
	for i, v := range id.saved() {
		name := e.cfg.Identity[i]
		if v == "" || labels[name] == v {
			continue
		}
		for labels[name] != "" {
			name = "stream_" + name
		}
		labels[name] = v
	}
}

// apart adds a label to an episode if an open one of its rule has the same labels and
// another key: `by` captured the value of an identity label from the lines of one, and
// the stream states it for the other.
func (e *Engine) apart(ep *episode) {
	same := func(o *episode) bool { return o != ep && o.print == ep.print }
	if !ep.rs.ambiguous || !slices.ContainsFunc(slices.Collect(maps.Values(ep.rs.open)), same) {
		return
	}
	for i, name := range e.cfg.Identity {
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
