package episodes

import (
	"slices"

	"crowsnest/matcher"
)

// recall caches the results of the newest line of a rule. The lines of a storm nearly
// always have the same stream and values, so nothing is cleaned, joined or looked up
// again. Its strings are memory of the engine or of the labels.
type recall struct {
	labels matcher.Labels // of the stream
	// values are those that are clean as they are; "" is empty, or not known.
	values []string
	// key is that of the first values, if keyed is set; missing is as of keyOf.
	key     []byte
	missing bool
	keyed   bool
	episode *episode // that is open for key; nil: not known
}

// begin forgets what it knows of another stream.
func (r *recall) begin(b *intake, n int) {
	if b.address != addressOf(r.labels) || len(r.values) != n {
		*r = recall{labels: b.labels, values: slices.Grow(r.values[:0], n)[:n], key: r.key}
		clear(r.values)
	}
}

// learn remembers a value that is clean; "": the one of the line is not. The first
// values, as many as by, are part of the key.
func (r *recall) learn(i int, v string, by int) {
	r.values[i] = v
	if i < by {
		r.keyed, r.episode = false, nil
	}
}

// join remembers the key of a hit if all of its values are known.
func (r *recall) join(b *intake, missing bool) {
	if n := len(b.by); n <= len(r.values) && slices.Equal(b.by, r.values[:n]) {
		r.key, r.missing, r.keyed = append(r.key[:0], b.key...), missing, true
	}
}

// forget drops an episode that is no longer open.
func (r *recall) forget(ep *episode) {
	if r.episode == ep {
		r.episode = nil
	}
}
