package saved

import (
	"slices"

	"crowsnest/episodes/internal/window"
	"crowsnest/internal/text"
	"crowsnest/redact"
	"crowsnest/rules"
)

// Lines copies log lines into the fields of a snapshot, at most Max bytes of each. Redaction is slow, so a line that is
// not redacted yet is only listed, and Redact saves it later.
type Lines struct {
	Max    int
	listed []line
}

type line struct {
	to   *redact.Text // snapshot field for the line
	text *window.Text
	raw  string
}

// SaveLine saves a line in dst. A line that is already redacted is saved immediately, any other line when Redact is
// called.
func (l *Lines) SaveLine(dst *redact.Text, t *window.Text) {
	if t.Raw == "" {
		*dst = text.Truncate(t.Clean, l.Max)
	} else {
		l.listed = append(l.listed, line{dst, t, t.Raw})
	}
}

// Redact redacts the listed lines and saves them. The engine may run during the call. The result is the argument for
// ReplaceRedacted.
func (l *Lines) Redact(hide func(string) redact.Text) (clean []redact.Text) {
	clean = make([]redact.Text, len(l.listed))
	for i, x := range l.listed {
		clean[i] = hide(x.raw)
		*x.to = text.Truncate(clean[i], l.Max)
	}
	return clean
}

// ReplaceRedacted replaces the engine's raw lines with their redacted forms, so that each line is redacted only once.
// It skips lines that have changed since they were listed. The engine must not run during the call.
func (l *Lines) ReplaceRedacted(clean []redact.Text) {
	for i, x := range l.listed {
		x.text.Redact(x.raw, clean[i])
	}
}

// SaveWindow saves a window. It omits the newest line if that line equals known, which is saved elsewhere.
func (l *Lines) SaveWindow(r *rules.Rule, w *window.Window, known window.Text) Window {
	out := Window{Distinct: l.saveHits(r, w.Values), Lines: w.Lines().Pack()}
	if w.Newest != nil {
		out.Newest = SaveValues(r, window.Hits{w.Newest})
		if w.Newest.Line != known {
			l.SaveLine(&out.Newest[0].Line, &w.Newest.Line)
		}
	}
	for _, hs := range w.Steps {
		out.Steps = append(out.Steps, l.saveHits(r, hs))
	}
	return out
}

// saveHits saves the fields of hits that later triggers need.
func (l *Lines) saveHits(r *rules.Rule, hs window.Hits) []Hit {
	out := SaveValues(r, hs)
	for i, h := range hs {
		l.SaveLine(&out[i].Line, &h.Line)
		if out[i].Multi = h.Several; r.Sequence {
			out[i].ID = h.ID
		}
	}
	return out
}

// SaveValues saves the values of hits that templates need. The result shares the values, which never change.
func SaveValues(r *rules.Rule, hs window.Hits) []Hit {
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

// Restore is the inverse of Lines.SaveWindow. names are the names of the values.
func (s *Window) Restore(r *rules.Rule, names []string) window.Window {
	steps := make([]window.Hits, len(s.Steps))
	for i := range steps {
		steps[i] = RestoreHits(names, s.Steps[i])
	}
	return window.RestoreWindow(r, steps, RestoreHits(names, s.Distinct), window.UnpackTimes(s.Lines), RestoreHits(names, s.Newest))
}

// RestoreHits is the inverse of SaveValues. names are the names of the values.
func RestoreHits(names []string, in []Hit) window.Hits {
	out := make(window.Hits, 0, len(in))
	for _, h := range in {
		out = append(out, &window.Hit{T: h.T, ID: h.ID, Values: h.Values, Names: names, Line: window.Text{Clean: h.Line}, Several: h.Multi})
	}
	return out
}
