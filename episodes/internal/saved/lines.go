package saved

import (
	"slices"

	"crowsnest/episodes/internal/window"
	"crowsnest/internal/text"
	"crowsnest/redact"
	"crowsnest/rules"
)

// Lines saves lines, of at most Max bytes each, and what contains lines. Redaction is
// slow, so lines that are not redacted yet are listed, and Redact saves them later.
type Lines struct {
	Max    int
	listed []line
}

// line is a line that is not redacted yet.
type line struct {
	to  *redact.Text // where it is saved
	of  *window.Text
	raw string
}

// Line saves a line in to, at once or by Redact.
func (l *Lines) Line(to *redact.Text, t *window.Text) {
	if t.Raw == "" {
		*to = text.Truncate(t.Clean, l.Max)
	} else {
		l.listed = append(l.listed, line{to, t, t.Raw})
	}
}

// Redact saves the listed lines, redacted. The engine may go on meanwhile. The caller
// passes the result to Learn.
func (l *Lines) Redact(hide func(string) redact.Text) (clean []redact.Text) {
	clean = make([]redact.Text, len(l.listed))
	for i, x := range l.listed {
		clean[i] = hide(x.raw)
		*x.to = text.Truncate(clean[i], l.Max)
	}
	return clean
}

// Learn replaces the engine's lines that have not changed since by their redacted forms:
// each line is redacted once. The engine must stand still.
func (l *Lines) Learn(clean []redact.Text) {
	for i, x := range l.listed {
		x.of.Redact(x.raw, clean[i])
	}
}

// Window saves a window, but for the newest line if that is known.
func (l *Lines) Window(r *rules.Rule, w *window.Window, known window.Text) Window {
	out := Window{Distinct: l.hits(r, w.Values), Lines: w.Lines().Pack()}
	if w.Newest != nil {
		out.Newest = Values(r, window.Hits{w.Newest})
		if w.Newest.Line != known {
			l.Line(&out.Newest[0].Line, &w.Newest.Line)
		}
	}
	for _, hs := range w.Steps {
		out.Steps = append(out.Steps, l.hits(r, hs))
	}
	return out
}

// hits saves the parts of hits that future triggers need.
func (l *Lines) hits(r *rules.Rule, hs window.Hits) []Hit {
	out := Values(r, hs)
	for i, h := range hs {
		l.Line(&out[i].Line, &h.Line)
		if out[i].Multi = h.Several; r.Sequence {
			out[i].ID = h.ID
		}
	}
	return out
}

// Values saves the parts of hits that templates need. The values of a hit never
// change, so they are shared.
func Values(r *rules.Rule, hs window.Hits) []Hit {
	out := make([]Hit, len(hs))
	for i, h := range hs {
		out[i].T = h.T
		if len(h.Values) == len(r.CapturedNames) && slices.Equal(h.Names, r.CapturedNames) {
			out[i].Values = h.Values
			continue
		}
		for _, name := range r.CapturedNames {
			out[i].Values = append(out[i].Values, h.Value(name))
		}
	}
	return out
}

// Load is the inverse of Lines.Window. names are those of the values.
func (s *Window) Load(r *rules.Rule, names []string) window.Window {
	steps := make([]window.Hits, len(s.Steps))
	for i := range steps {
		steps[i] = Hits(names, s.Steps[i])
	}
	return window.Load(r, steps, Hits(names, s.Distinct), window.Unpack(s.Lines), Hits(names, s.Newest))
}

// Hits is the inverse of Values. names are those of the values.
func Hits(names []string, in []Hit) window.Hits {
	out := make(window.Hits, 0, len(in))
	for _, h := range in {
		out = append(out, &window.Hit{T: h.T, ID: h.ID, Values: h.Values, Names: names, Line: window.Text{Clean: h.Line}, Several: h.Multi})
	}
	return out
}
