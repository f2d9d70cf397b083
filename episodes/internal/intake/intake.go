// Package intake prepares hits for counting. It finds the stream of a hit, cleans its values
// and builds its key.
//
// Nothing in it is safe for concurrent use.
package intake

import (
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"crowsnest/episodes/internal/window"
	"crowsnest/episodes/render"
	"crowsnest/internal/quota"
	"crowsnest/internal/text"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
)

// MaxValue is the maximum length of a label value in bytes.
const MaxValue = 256

// maxClean is the maximum number of cached cleaned values.
const maxClean = 4096

// maxValues is the maximum number of values whose memory End keeps for the next block.
const maxValues = 1 << 14

// Intake prepares one hit at a time. SetOrigin, CleanValues and KeyOf fill it. It reuses its
// memory for each hit.
type Intake struct {
	window.Copier
	Origin            // origin of the hit's stream
	Hit    window.Hit // the hit that is being processed
	// ClockShift is the duration by which the time of the hit was moved, because the clock was set since the line was
	// written.
	ClockShift int64
	Key        []byte // key made of the identity and the values of `by`

	cleaner   *Cleaner
	origins   origins
	keyValues []redact.Text // values of `by`
	values    []redact.Text // values of all hits until End, concatenated
}

// Cleaner hides the secrets in captured values, and caches the results.
type Cleaner struct {
	redactor *redact.Redactor
	cleaned  *simplelru.LRU[cleanKey, redact.Text]
}

type cleanKey struct {
	rule  uint64
	name  int
	value string
}

// NewCleaner returns a Cleaner that replaces the secrets that redactor finds. A nil redactor finds none.
func NewCleaner(redactor *redact.Redactor) *Cleaner {
	return &Cleaner{redactor, quota.NewLRU[cleanKey, redact.Text](maxClean)}
}

// New returns an intake for streams with these identity labels.
func New(identity []string, cleaner *Cleaner, r *render.Renderer) Intake {
	return Intake{Copier: window.Copier{Max: render.MaxLine, Sample: r.RedactLine}, cleaner: cleaner, origins: newOrigins(identity)}
}

// DropReferences drops all references to the memory of the caller's hits.
func (b *Intake) DropReferences() {
	b.Release()
	clear(b.keyValues[:cap(b.keyValues)])
	clear(b.values)
	b.keyValues, b.values, b.Hit = b.keyValues[:0], b.values[:0], window.Hit{}
	if cap(b.values) > maxValues {
		b.values = nil
	}
}

// SetOrigin sets the origin to the stream with these labels.
func (b *Intake) SetOrigin(labels matcher.Labels) {
	if address := labelsAddress(labels); address != b.address { // the address of the labels rarely changes between hits
		b.Origin = *b.origins.findOrigin(labels, address)
	}
}

// KeyOf sets Key to the key of the cleaned values of a hit. It returns the truncated values of `by`, and reports
// whether one is missing. The returned values and Key are valid until the next call.
func (b *Intake) KeyOf(m *Memory, cleaned []redact.Text) (by []redact.Text, missing bool) {
	by = b.keyValues[:0]
	if m.keyed {
		b.keyValues = append(by, m.values[:m.keyCount]...)
		b.Key = append(b.Key[:0], m.key...)
		return b.keyValues, m.missing
	}
	for i := range m.keyCount {
		var v redact.Text
		if i < len(cleaned) {
			v = cleaned[i]
			if !utf8.ValidString(string(v)) || len(v) > MaxValue {
				v = v.Map(labelValue)
			}
		}
		missing = missing || v == ""
		by = append(by, v)
	}
	b.keyValues = by
	b.Key = append(AppendKey(b.Key[:0], by, nil), b.StreamIdentity.KeySuffix()...)
	m.rememberKey(b, missing)
	return by, missing
}

// KeyWithoutIdentity returns Key without the identity.
func (b *Intake) KeyWithoutIdentity() string {
	return string(b.Key[:len(b.Key)-len(b.StreamIdentity.KeySuffix())])
}

// CleanValues returns the values of a hit without secrets, line breaks, control and invisible characters, and of
// bounded length. A captured value has lost the context that made it a secret ("hunter2" of "password=hunter2"), so
// secrets are looked for in the whole line. Labels of the stream are not checked. A cache serves nearly all calls,
// because the same values occur again and again. The result is valid until End.
func (b *Intake) CleanValues(m *Memory, h *matcher.Hit) []redact.Text {
	var line redact.Text
	m.startStream(b, len(h.Values))
	from := len(b.values)
	for i, v := range h.Values {
		c := m.values[i]
		if v != string(c) {
			kept := false
			if c = ""; v != "" && i < len(h.Rule.CapturedNames) {
				c, kept = b.cleaner.cleanValue(m.Seed, h, i, &line)
			}
			if m.rememberValue(i, ""); kept && string(c) == v {
				m.rememberValue(i, c)
			}
		}
		b.values = append(b.values, c)
	}
	return b.values[from:len(b.values):len(b.values)]
}

// cleanValue returns one value, cleaned as in CleanValues. line is the redacted line, or empty if the line was not
// redacted yet. kept reports whether the result stays valid when the memory of the hit is reused.
func (cl *Cleaner) cleanValue(rule uint64, h *matcher.Hit, i int, line *redact.Text) (c redact.Text, kept bool) {
	v := h.Values[i]
	if cl.redactor == nil {
		return text.Truncate(redact.Sanitise(cl.redactor.Text(v)), render.MaxLine), false
	}
	if label := h.Labels[h.Rule.CapturedNames[i]]; v == label && redact.Sanitise(v) == v {
		return redact.Label(label), true
	}
	key := cleanKey{rule, i, v}
	if c, ok := cl.cleaned.Get(key); ok {
		return c, true
	}
	if *line == "" {
		*line = cl.redactor.Text(h.Line)
	}
	c = text.Truncate(redact.Sanitise(cl.redactor.Part(h.Line, *line, v)), render.MaxLine)
	if len(v) > render.MaxLine {
		return c, false
	}
	c = c.Clone()
	if key.value = string(c); key.value != v {
		key.value = strings.Clone(v)
	}
	cl.cleaned.Add(key, c)
	return c, true
}

// AppendKey appends the values with these indexes, or all values if indexes is nil, as one string that is unique to
// them. Values are at most MaxValue bytes long.
func AppendKey[T ~string](b []byte, values []T, indexes []int) []byte {
	n := len(indexes)
	if indexes == nil {
		n = len(values)
	}
	for i := range n {
		k := i
		if indexes != nil {
			k = indexes[i]
		}
		v := values[k]
		if n > 1 {
			b = append(b, byte(len(v)>>8), byte(len(v))) // the length takes two bytes
		}
		b = append(b, v...)
	}
	return b
}

// JoinKey returns the key of these values of `by` and an identity. The key has the form of Intake.Key.
func JoinKey[T ~string](values []T, who *Identity) string {
	return string(AppendKey(nil, values, nil)) + who.KeySuffix()
}

// Hash returns the FNV-1a hash of s.
func Hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// MixHash hashes two words into one.
func MixHash(a, b uint64) uint64 {
	x := a ^ b*0x9E3779B97F4A7C15
	x ^= x >> 32
	x *= 0xD6E8FEB86659FD93
	x ^= x >> 32
	return x
}

// Memory caches the results for the newest hit of a rule. In a burst of lines nearly all hits have the same stream and
// values, so nothing has to be cleaned or joined again. Its strings share the memory of the intake or of the labels.
type Memory struct {
	Seed     uint64 // hash of the rule's name
	keyCount int    // number of values in the key

	labels matcher.Labels // labels of the stream
	// values are the clean values of the newest hit. A value is empty if it is unknown or was changed by the cleaning.
	values []redact.Text
	// key is the key of the values, if keyed is set. missing is the second result of KeyOf.
	key     []byte
	missing bool
	keyed   bool
}

// NewMemory returns an empty cache for a rule.
func NewMemory(r *rules.Rule) Memory { return Memory{Seed: Hash(r.Alert), keyCount: len(r.By)} }

// startStream forgets the cached values if the stream of the hit is not the stream of the previous hit.
func (m *Memory) startStream(b *Intake, n int) {
	if b.address != labelsAddress(m.labels) || len(m.values) != n {
		*m = Memory{Seed: m.Seed, keyCount: m.keyCount, labels: b.Labels, values: slices.Grow(m.values[:0], n)[:n], key: m.key}
		clear(m.values)
	}
}

// rememberValue caches a clean value. It stores an empty value if the line's value needed cleaning.
func (m *Memory) rememberValue(i int, v redact.Text) {
	m.values[i] = v
	if i < m.keyCount {
		m.keyed = false
	}
}

func (m *Memory) rememberKey(b *Intake, missing bool) {
	if n := len(b.keyValues); n <= len(m.values) && slices.Equal(b.keyValues, m.values[:n]) {
		m.key, m.missing, m.keyed = append(m.key[:0], b.Key...), missing, true
	}
}

// Limits of the caches of streams.
const (
	maxOrigins    = 256  // maximum number of streams; a power of two
	maxIdentities = 1024 // maximum number of combinations of values
)

// identityMark begins the part of a key that holds the identity. Values of `by` are valid UTF-8 and therefore never
// contain this byte.
const identityMark = 0xff

// Identity is the values of the identity labels in a stream. It is a part of every key of every rule. Nil means that
// the stream has none of the labels, which is an identity of its own. An Identity is immutable.
type Identity struct {
	values []string // values in the order of the labels; empty where the stream lacks the label
	key    string   // the same values in the form of a key's end
}

// KeySuffix returns the end of a key, which holds the identity.
func (id *Identity) KeySuffix() string {
	if id == nil {
		return ""
	}
	return id.key
}

// Values returns the values in the order of the labels. A value is "" if the stream lacks the label. The slice is
// read-only. It is nil if the stream has none of the labels.
func (id *Identity) Values() []string {
	if id == nil {
		return nil
	}
	return id.values
}

// AddTo adds the identity labels, whose names are given, to the labels of an alert. If the rule already sets a label of
// that name to another value, the value of the stream becomes the label stream_NAME.
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

// Origin holds the values that depend only on the stream of a line.
type Origin struct {
	Labels         matcher.Labels // keeps the map alive, so that no other map can have the same address
	StreamIdentity *Identity
	// Tenant is the tenant that is charged for the lines of the stream. It consists of the identity values and the
	// namespace that the source states. It is empty if the stream has neither.
	Tenant string

	address uintptr
	log     uint64 // result of logID
}

// origins caches the origins of recent streams by the address of their label maps, because computing an origin for each
// line would be slow.
type origins struct {
	names  []string // names of the identity labels
	recent [maxOrigins]Origin
	// known lets streams with equal identities share one Identity, so that a key needs only a pointer.
	known *simplelru.LRU[string, *Identity]
}

func newOrigins(names []string) origins {
	return origins{names: names, known: quota.NewLRU[string, *Identity](maxIdentities)}
}

// findOrigin returns the origin of the stream with these labels. address is the address of the map.
func (os *origins) findOrigin(labels matcher.Labels, address uintptr) *Origin {
	o := &os.recent[MixHash(uint64(address), 1)%maxOrigins]
	if o.address != address {
		who := os.findIdentity(labels)
		*o = Origin{labels, who, tenantOf(labels["namespace"], who), address, logID(labels)}
	}
	return o
}

// labelsAddress returns the address of the map, which identifies the labels as long as the map is kept.
func labelsAddress(labels matcher.Labels) uintptr { return reflect.ValueOf(labels).Pointer() }

// Identity returns the identity of a stream. The identity depends on the stream's labels, never on its lines.
func (b *Intake) Identity(labels matcher.Labels) *Identity { return b.origins.findIdentity(labels) }

func (os *origins) findIdentity(labels matcher.Labels) *Identity {
	values := make([]string, len(os.names))
	for i, name := range os.names {
		values[i] = labelValue(labels[name])
	}
	return os.internIdentity(values)
}

// labelValue makes a text a valid label value, by truncating it and replacing invalid UTF-8.
func labelValue(v string) string { return text.Truncate(strings.ToValidUTF8(v, "\uFFFD"), MaxValue) }

// internIdentity returns the shared identity with these values.
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

// SavedIdentity returns the identity with values from a snapshot. names are the labels of these values. It omits labels
// that are no longer part of the identity.
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
	party := labelValue(namespace)
	for _, v := range slices.Backward(who.Values()) {
		if v != "" {
			party = v + "/" + party
		}
	}
	return party
}
