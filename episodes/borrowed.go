package episodes

import (
	"slices"
	"strings"
)

// text is a log line. It is redacted when it is first shown: nearly all lines never are.
type text struct {
	s     string
	clean bool
	// borrowed means that s is memory of the caller of Take, of any length.
	borrowed bool
}

// borrow copies a hit whose texts may belong to the caller. Nearly all such copies are
// overwritten before Take returns; copyAll copies the texts of the rest.
func (b *batch) borrow(to, from *hit) {
	to.t, to.id, to.values, to.names = from.t, from.id, from.values, from.names
	to.line, to.several, to.borrowed = from.line, from.several, from.borrowed
	if !to.borrowed {
		to.copied = to.values
	}
	b.list(to)
}

// list records a hit whose texts must be copied before Take returns.
func (b *batch) list(h *hit) {
	if !h.listed {
		h.listed = true
		b.hits = append(b.hits, h)
	}
}

// copyAll copies the kept texts out of the caller's memory and drops all references to
// it.
func (e *Engine) copyAll() {
	b := &e.batch
	for _, h := range b.hits {
		e.copyHit(h)
		h.listed = false
	}
	clear(b.hits)
	clear(b.by[:cap(b.by)])
	b.hits, b.by, b.hit = b.hits[:0], b.by[:0], hit{}
	b.source, b.copy = "", text{}
}

// copyHit copies the texts of a hit out of the caller's memory.
func (e *Engine) copyHit(h *hit) {
	if h.borrowed {
		h.borrowed = false
		if !slices.Equal(h.values, h.copied) {
			h.copied = e.batch.cloned(h.values)
		}
		h.values = h.copied
	}
	h.line = e.copied(h.line)
}

// copied returns a line in memory of its own. A long line is reduced to a sample at
// once, so that no line costs more memory than a sample. The line copied last is not
// copied twice: an episode and its window share it.
func (e *Engine) copied(t text) text {
	b := &e.batch
	switch {
	case !t.borrowed:
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

// cloned copies strings, and shares memory with those copied last: most values are the
// same namespace and pod again.
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
