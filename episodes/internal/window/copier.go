package window

import (
	"slices"
	"strings"

	"crowsnest/redact"
)

// Text is a log line. It is redacted when it is first shown: nearly all lines never are.
type Text struct {
	Raw   string      // before it is redacted; "" after that
	Clean redact.Text // truncated, too
	// Borrowed means that Raw is memory of Take's caller, of any length.
	Borrowed bool
}

// Empty reports whether there is no line.
func (t Text) Empty() bool { return t.Raw == "" && t.Clean == "" }

// Shown returns the redacted line. hide redacts and truncates.
func (t Text) Shown(hide func(line string) redact.Text) redact.Text {
	if t.Raw == "" {
		return t.Clean
	}
	return hide(t.Raw)
}

// Redact replaces the text by its redacted form, unless it has changed from raw.
func (t *Text) Redact(raw string, clean redact.Text) {
	if t.Raw == raw && raw != "" {
		*t = Text{Clean: clean}
	}
}

// Copier copies the kept texts of hits out of the memory of Take's caller. Nearly all of
// these hits are overwritten before Take returns; Release copies the rest.
type Copier struct {
	Max    int                           // bytes of a line that are kept
	Sample func(line string) redact.Text // redacts and truncates a longer line

	hits   []*Hit
	source string // the line that was copied last
	copy   Text
	each   Times         // buffer for a window with distinct
	values []redact.Text // values that were copied last
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
	case t.Raw == c.source:
		return c.copy
	}
	c.source, c.copy = t.Raw, Text{Raw: strings.Clone(t.Raw)}
	if len(t.Raw) > c.Max {
		c.copy = Text{Clean: c.Sample(t.Raw).Clone()}
	}
	return c.copy
}

// Values copies strings. It shares memory with the last copies: most values are the same
// namespace and pod again.
func (c *Copier) Values(values []redact.Text) []redact.Text {
	out := make([]redact.Text, len(values))
	for i, v := range values {
		if i < len(c.values) && c.values[i] == v {
			out[i] = c.values[i]
			continue
		}
		out[i] = v.Clone()
	}
	c.values = out
	return out
}
