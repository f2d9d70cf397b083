package episodes

import (
	"slices"
	"strings"
)

// text is a line of the log. It is redacted when it is first shown: nearly all
// lines never are.
type text struct {
	s     string
	clean bool
	// lent tells that s is memory of the caller of Take, of any length.
	lent bool
}

// lend copies a hit whose texts may be the caller's. Nearly all such copies are
// overwritten before Take returns: what is left then is owned.
func (b *batch) lend(to, from *hit) {
	to.t, to.id, to.values, to.wants = from.t, from.id, from.values, from.wants
	to.line, to.several, to.lent = from.line, from.several, from.lent
	if !to.lent {
		to.owned = to.values
	}
	b.list(to)
}

// list remembers a hit that has to be owned when Take returns.
func (b *batch) list(h *hit) {
	if !h.listed {
		h.listed = true
		b.hits = append(b.hits, h)
	}
}

// ownAll copies what is kept of the caller's memory and forgets the rest.
func (e *Engine) ownAll() {
	b := &e.batch
	for _, h := range b.hits {
		e.own(h)
		h.listed = false
	}
	clear(b.hits)
	clear(b.by[:cap(b.by)])
	b.hits, b.by, b.hit = b.hits[:0], b.by[:0], hit{}
	b.source, b.copy = "", text{}
}

// own copies what a hit has of the caller's memory.
func (e *Engine) own(h *hit) {
	if h.lent {
		h.lent = false
		if !slices.Equal(h.values, h.owned) {
			h.owned = e.batch.cloned(h.values)
		}
		h.values = h.owned
	}
	h.line = e.owned(h.line)
}

// owned returns a line in memory of its own. A long one is made a sample at
// once, so that no line costs more memory than a sample. The last line that was
// copied is not copied twice: an episode and its window share it.
func (e *Engine) owned(t text) text {
	b := &e.batch
	switch {
	case !t.lent:
		return t
	case t.s == b.source:
		return b.copy
	}
	b.source, b.copy = t.s, text{s: strings.Clone(t.s)}
	if len(t.s) > maxSample {
		b.copy = text{s: strings.Clone(e.sample(t.s)), clean: true}
	}
	return b.copy
}

// cloned copies strings into memory of their own, and shares it with the ones
// that were copied last: most values are the namespace and the pod again.
func (b *batch) cloned(values []string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		if i < len(b.values) && b.values[i] == v {
			out[i] = b.values[i]
			continue
		}
		out[i] = strings.Clone(v)
	}
	b.values = out
	return out
}
