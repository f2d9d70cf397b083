package window

import (
	"strings"

	"crowsnest/rules"
)

// maxTries bounds the search for one sequence. Hits with equal values are tried once, so
// only hundreds of different values in several steps come close to it.
const maxTries = 1 << 16

// findSequence looks for a complete sequence t1 <= ... <= tn with tn-t1 < within that uses h as the line of step. It
// prefers the newest last step, then the latest possible earlier steps. All steps lie between the clear lines at lo and
// hi.
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
		if s.chooseBackwards(last - 1) {
			return w.newTrigger(s.found, h), true
		}
	}
	return Trigger{}, false
}

// stepsBetween returns the hits of each step between two times, both exclusive.
func (w *Window) stepsBetween(lo, hi int64) []Hits {
	out := make([]Hits, len(w.Steps))
	for i, hs := range w.Steps {
		from, to := hs.indexesBetween(lo, hi)
		out[i] = hs[from:to]
	}
	return out
}

// sequenceEnds returns the times of the last steps of all complete sequences between the clear
// lines at lo and hi.
func (w *Window) sequenceEnds(r *rules.Rule, lo, hi int64) Times {
	var out Times
	steps := w.stepsBetween(lo, hi)
	last := len(steps) - 1
	for _, h := range steps[last] {
		s := search{r: r, steps: steps, step: last, hit: h, found: make(Hits, len(steps))}
		s.found[last] = h
		if s.chooseBackwards(last-1) && (len(out) == 0 || out[len(out)-1] != h.T) {
			out = append(out, h.T)
		}
	}
	return out
}

func (w *Window) newTrigger(sequence Hits, h *Hit) Trigger {
	t := Trigger{T: sequence[len(sequence)-1].T, WindowStart: sequence[0].T - 1, Sequence: sequence, Line: h}
	if !w.several {
		for _, hs := range w.Steps {
			t.Lines += int64(hs.IndexAfter(t.T) - hs.IndexAfter(t.WindowStart))
		}
		return t
	}
	seen := map[uint64]bool{}
	for _, hs := range w.Steps {
		for _, x := range hs[hs.IndexAfter(t.WindowStart):] {
			if x.T <= t.T && !seen[x.ID] {
				seen[x.ID] = true
				t.Lines++
			}
		}
	}
	return t
}

// search is the state of one search for a sequence. The search goes from the last step to the first. While it chooses
// step i, found[i+1:] is already chosen.
type search struct {
	r     *rules.Rule
	steps []Hits
	step  int // step whose line is hit
	hit   *Hit
	found Hits
	tries int
}

// chooseBackwards chooses steps i, i-1, ..., 0, each as late as possible.
func (s *search) chooseBackwards(i int) bool {
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
		if !s.canServe(i, c) {
			continue
		}
		// A newer hit with the same values was tried without success. This hit is older, so it leaves less room for the
		// other steps and would fail too. An exception is a newer hit that failed only because another step needed its
		// line.
		values := s.differingValues(c)
		if tried[values] {
			continue
		}
		s.found[i] = c
		if s.chooseBackwards(i - 1) {
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

// canServe reports whether c can be the line of step i. c cannot be this line if it is already the line of a later
// step, or if `differs` of a later step forbids one of its values.
func (s *search) canServe(i int, c *Hit) bool {
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

func (s *search) differingValues(c *Hit) string {
	var b strings.Builder
	for _, step := range s.r.Steps {
		for _, name := range step.Differs {
			b.WriteString(string(c.Value(name)))
			b.WriteByte(0)
		}
	}
	return b.String()
}
