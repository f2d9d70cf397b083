package window

import (
	"strings"

	"crowsnest/rules"
)

// maxTries bounds the search for one sequence. Hits with equal values are tried once, so
// only hundreds of different values in several steps come close to it.
const maxTries = 1 << 16

// findSequence looks for a complete sequence t1 <= ... <= tn with tn-t1 < within in which h
// serves the step. It prefers the newest last step, and then the latest possible earlier
// steps. All lie between lo and hi, the times of clear lines.
func (w *Window) findSequence(r *rules.Rule, step int, h *Hit, lo, hi int64) (Trigger, bool) {
	s := search{r: r, steps: w.Steps, step: step, hit: h, found: make(Hits, len(w.Steps))}
	if lo != NoTime || hi != Forever {
		s.steps = w.stepsBetween(lo, hi)
	}
	last := len(w.Steps) - 1
	candidates := s.steps[last]
	if step == last {
		candidates = Hits{h}
	}
	for i := len(candidates) - 1; i >= 0 && candidates[i].T >= h.T; i-- {
		c := candidates[i]
		if c.T-h.T >= int64(r.Within) {
			continue
		}
		s.found[last] = c
		if s.back(last - 1) {
			return w.triggered(s.found, h), true
		}
	}
	return Trigger{}, false
}

// stepsBetween returns the hits of each step between two times, both exclusive.
func (w *Window) stepsBetween(lo, hi int64) []Hits {
	out := make([]Hits, len(w.Steps))
	for i, hs := range w.Steps {
		from, to := hs.between(lo, hi)
		out[i] = hs[from:to]
	}
	return out
}

// sequenceEnds returns the times of the last steps of all complete sequences between
// lo and hi.
func (w *Window) sequenceEnds(r *rules.Rule, lo, hi int64) Times {
	var out Times
	steps := w.stepsBetween(lo, hi)
	last := len(steps) - 1
	for _, h := range steps[last] {
		s := search{r: r, steps: steps, step: last, hit: h, found: make(Hits, len(steps))}
		s.found[last] = h
		if s.back(last-1) && (len(out) == 0 || out[len(out)-1] != h.T) {
			out = append(out, h.T)
		}
	}
	return out
}

// triggered returns the trigger of a sequence that h completed.
func (w *Window) triggered(sequence Hits, h *Hit) Trigger {
	t := Trigger{T: sequence[len(sequence)-1].T, From: sequence[0].T - 1, Sequence: sequence, Line: h}
	if !w.several {
		for _, hs := range w.Steps {
			t.Lines += int64(hs.Since(t.T) - hs.Since(t.From))
		}
		return t
	}
	seen := map[uint64]bool{}
	for _, hs := range w.Steps {
		for _, x := range hs[hs.Since(t.From):] {
			if x.T <= t.T && !seen[x.ID] {
				seen[x.ID] = true
				t.Lines++
			}
		}
	}
	return t
}

// search is the state of one search: found[i+1:] is chosen while step i is searched.
type search struct {
	r     *rules.Rule
	steps []Hits
	step  int // step that the hit serves
	hit   *Hit
	found Hits
	tries int
}

// back chooses steps i, i-1, ..., 0, each as late as possible.
func (s *search) back(i int) bool {
	if i < 0 {
		return true
	}
	candidates := s.steps[i]
	if i == s.step {
		candidates = Hits{s.hit}
	}
	upper, end := s.found[i+1].T, s.found[len(s.found)-1].T
	var tried map[string]bool
	for k := len(candidates) - 1; k >= 0; k-- {
		c := candidates[k]
		if c.T > upper {
			continue
		}
		if end-c.T >= int64(s.r.Within) || i > s.step && c.T < s.hit.T {
			break
		}
		if s.tries++; s.tries > maxTries {
			return false
		}
		if !s.fits(i, c) {
			continue
		}
		// An older hit with the same values leaves less room than one that failed,
		// unless that one failed because its line was needed for another step.
		values := s.values(c)
		if tried[values] {
			continue
		}
		s.found[i] = c
		if s.back(i - 1) {
			return true
		}
		if c.Several {
			continue
		}
		if tried == nil {
			tried = map[string]bool{}
		}
		tried[values] = true
	}
	return false
}

// fits reports whether c can serve step i beside the later steps: it is another line,
// and differs where `differs` requires it.
func (s *search) fits(i int, c *Hit) bool {
	for k := i + 1; k < len(s.found); k++ {
		if s.found[k].ID == c.ID {
			return false
		}
		for _, name := range s.r.Steps[k].Differs {
			if v := c.Value(name); v != "" && v == s.found[k].Value(name) {
				return false
			}
		}
	}
	return true
}

// values returns the values that `differs` compares.
func (s *search) values(c *Hit) string {
	var b strings.Builder
	for _, step := range s.r.Steps {
		for _, name := range step.Differs {
			b.WriteString(string(c.Value(name)))
			b.WriteByte(0)
		}
	}
	return b.String()
}
