package window

import (
	"slices"
	"strings"
)

// Text is a log line. It is redacted when it is first shown: nearly all lines never are.
type Text struct {
	S     string
	Clean bool // redacted and truncated
	// Borrowed means that S is memory of Take's caller, of any length.
	Borrowed bool
}

// Redact replaces the text by its redacted form, unless it has changed from raw.
func (t *Text) Redact(raw, clean string) {
	if !t.Clean && t.S == raw {
		t.S, t.Clean = clean, true
	}
}

// Copier copies the kept texts of hits out of the memory of Take's caller. Nearly all of
// these hits are overwritten before Take returns; Release copies the rest.
type Copier struct {
	Max    int                      // bytes of a line that are kept
	Sample func(line string) string // redacts and truncates a longer line
	Clean  bool                     // lines need no redaction

	hits   []*Hit
	source string // the line that was copied last
	copy   Text
	each   Times    // buffer for a window with distinct
	values []string // that were copied last
}

// Borrow copies a hit, but not its texts.
func (c *Copier) Borrow(to, from *Hit) {
	to.T, to.ID, to.Values, to.Names = from.T, from.ID, from.Values, from.Names
	to.Line, to.Several, to.Borrowed = from.Line, from.Several, from.Borrowed
	if !to.Borrowed {
		to.copied = to.Values
	}
	c.List(to)
}

func (c *Copier) borrowed(from *Hit) *Hit {
	h := &Hit{}
	c.Borrow(h, from)
	return h
}

// List records a hit whose texts must be copied before Take returns.
func (c *Copier) List(h *Hit) {
	if !h.listed {
		h.listed = true
		c.hits = append(c.hits, h)
	}
}

// Release copies the texts of all recorded hits and drops every reference to the
// caller's memory.
func (c *Copier) Release() {
	for _, h := range c.hits {
		c.Copy(h)
		h.listed = false
	}
	clear(c.hits)
	c.hits, c.source, c.copy = c.hits[:0], "", Text{}
}

// Released reports whether nothing is recorded since Release.
func (c *Copier) Released() bool { return len(c.hits) == 0 }

// Copy copies the texts of a hit out of the caller's memory.
func (c *Copier) Copy(h *Hit) {
	if h.Borrowed {
		h.Borrowed = false
		if !slices.Equal(h.Values, h.copied) {
			h.copied = c.Values(h.Values)
		}
		h.Values = h.copied
	}
	h.Line = c.Text(h.Line)
}

// Unlisted returns a copy of a hit that is not recorded.
func (h *Hit) Unlisted() Hit {
	out := *h
	out.listed = false
	return out
}

// Text returns a line in memory of its own. A long line is reduced to a sample at
// once, so that no line costs more memory than a sample. The line copied last is not
// copied twice: an episode and its window share it.
func (c *Copier) Text(t Text) Text {
	switch {
	case !t.Borrowed:
		return t
	case t.S == c.source:
		return c.copy
	}
	c.source, c.copy = t.S, Text{S: strings.Clone(t.S), Clean: c.Clean}
	if len(t.S) > c.Max {
		c.copy = Text{S: strings.Clone(c.Sample(t.S)), Clean: true}
	}
	return c.copy
}

// Values copies strings. It shares memory with the last copies: most values are the same
// namespace and pod again.
func (c *Copier) Values(values []string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		if i < len(c.values) && c.values[i] == v {
			out[i] = c.values[i]
			continue
		}
		out[i] = strings.Clone(v)
	}
	c.values = out
	return out
}
