package window

import (
	"slices"
	"strings"

	"crowsnest/redact"
)

// Text is a log line. It is redacted only when it is first shown, because nearly all lines are never shown.
type Text struct {
	Raw   string      // line before redaction; empty once it is redacted
	Clean redact.Text // redacted and truncated line
	// Borrowed means that Raw refers to memory of the caller of Take. A borrowed Raw can have any length.
	Borrowed bool
}

// Empty reports whether there is no line.
func (t Text) Empty() bool { return t.Raw == "" && t.Clean == "" }

// Shown returns the redacted line. hide redacts and truncates a raw line.
func (t Text) Shown(hide func(line string) redact.Text) redact.Text {
	if t.Raw == "" {
		return t.Clean
	}
	return hide(t.Raw)
}

// Redact replaces the text with its redacted form clean. It does nothing if the text is no longer the raw line.
func (t *Text) Redact(raw string, clean redact.Text) {
	if t.Raw == raw && raw != "" {
		*t = Text{Clean: clean}
	}
}

// Copier copies the texts of kept hits out of the memory of the caller of Take. It defers the copies until Release,
// because most of these hits are replaced before Take returns.
type Copier struct {
	Max    int                           // maximum number of bytes of a line that are kept
	Sample func(line string) redact.Text // redacts and truncates a line that is longer than Max

	hits   []*Hit
	source string // line that was copied last
	copy   Text
	each   Times         // buffer for counting `distinct` values
	values []redact.Text // values that were copied last
}

// Borrow copies a hit without copying its texts, and records the copy.
func (c *Copier) Borrow(dst, from *Hit) {
	dst.T, dst.ID, dst.Values, dst.Names = from.T, from.ID, from.Values, from.Names
	dst.Line, dst.Several, dst.Borrowed = from.Line, from.Several, from.Borrowed
	if !dst.Borrowed {
		dst.copied = dst.Values
	}
	c.Record(dst)
}

func (c *Copier) findBorrowed(from *Hit) *Hit {
	h := &Hit{}
	c.Borrow(h, from)
	return h
}

// Record records a hit whose texts must be copied before Take returns.
func (c *Copier) Record(h *Hit) {
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

// IsReleased reports whether no hit was recorded since Release.
func (c *Copier) IsReleased() bool { return len(c.hits) == 0 }

// Copy copies the texts of a hit out of the caller's memory.
func (c *Copier) Copy(h *Hit) {
	if h.Borrowed {
		h.Borrowed = false
		if !slices.Equal(h.Values, h.copied) {
			h.copied = c.CopyValues(h.Values)
		}
		h.Values = h.copied
	}
	h.Line = c.CopyText(h.Line)
}

// WithoutRecord returns a copy of a hit that no Copier has recorded.
func (h *Hit) WithoutRecord() Hit {
	out := *h
	out.listed = false
	return out
}

// CopyText returns a copy of the line. A long line is immediately reduced to a sample, so that no line takes more
// memory than a sample. If the same line was copied last, that copy is shared, because an episode and its window hold
// the same line.
func (c *Copier) CopyText(t Text) Text {
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

// CopyValues copies strings. It shares the strings of the previous call that are equal, because most values are the
// same namespace and pod again.
func (c *Copier) CopyValues(values []redact.Text) []redact.Text {
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
