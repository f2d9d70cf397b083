package intake

import (
	"slices"

	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
)

// Memory caches the results of the newest hit of a rule. The lines of a storm nearly
// always have the same stream and values, so nothing is cleaned or joined again. Its
// strings belong to the intake or to the labels.
type Memory struct {
	Seed uint64 // hash of the rule's name
	by   int    // number of values in the key

	labels matcher.Labels // labels of the stream
	// values are those of the newest hit that needed no cleaning. An empty one is empty or
	// unknown.
	values []redact.Text
	// key is the key of the values, if keyed is set. missing is the result of KeyOf.
	key     []byte
	missing bool
	keyed   bool
}

// NewMemory makes the memory of a rule.
func NewMemory(r *rules.Rule) Memory { return Memory{Seed: Hash(r.Alert), by: len(r.By)} }

// startStream forgets the values of the previous hit if its stream was another one.
func (m *Memory) startStream(b *Intake, n int) {
	if b.address != labelsAddress(m.labels) || len(m.values) != n {
		*m = Memory{Seed: m.Seed, by: m.by, labels: b.Labels, values: slices.Grow(m.values[:0], n)[:n], key: m.key}
		clear(m.values)
	}
}

// rememberValue remembers a clean value, or an empty one if the line's value is not clean.
func (m *Memory) rememberValue(i int, v redact.Text) {
	m.values[i] = v
	if i < m.by {
		m.keyed = false
	}
}

// rememberKey remembers the key of a hit if all of its values are known.
func (m *Memory) rememberKey(b *Intake, missing bool) {
	if n := len(b.by); n <= len(m.values) && slices.Equal(b.by, m.values[:n]) {
		m.key, m.missing, m.keyed = append(m.key[:0], b.Key...), missing, true
	}
}
