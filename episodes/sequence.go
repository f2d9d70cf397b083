package episodes

import (
	"strings"

	"crowsnest/rules"
)

// maxTries bounds the search for one sequence. Hits with equal values are tried
// once, so that only hundreds of different values in several steps come near.
const maxTries = 1 << 16

// findSequence looks for a complete sequence t1 <= ... <= tn with tn-t1 < within in
// which h serves the step: the one with the newest last step, and for that with
// the latest possible earlier ones. All lie between lo and hi, the times of clear
// lines.
func (w *window) findSequence(r *rules.Rule, step int, h *hit, lo, hi int64) (trigger, bool) {
	s := search{r: r, steps: w.steps, step: step, hit: h, found: make(hits, len(w.steps))}
	if lo != noTime || hi != forever {
		s.steps = w.stepsBetween(lo, hi)
	}
	last := len(w.steps) - 1
	candidates := s.steps[last]
	if step == last {
		candidates = hits{h}
	}
	for i := len(candidates) - 1; i >= 0 && candidates[i].t >= h.t; i-- {
		c := candidates[i]
		if c.t-h.t >= int64(r.Within) {
			continue
		}
		s.found[last] = c
		if s.back(last - 1) {
			return w.triggered(s.found, h), true
		}
	}
	return trigger{}, false
}

// stepsBetween returns the hits of each step between two times, both exclusive.
func (w *window) stepsBetween(lo, hi int64) []hits {
	out := make([]hits, len(w.steps))
	for i, hs := range w.steps {
		from, to := hs.between(lo, hi)
		out[i] = hs[from:to]
	}
	return out
}

// sequenceEnds returns the times of the last steps of all complete sequences between
// lo and hi.
func (w *window) sequenceEnds(r *rules.Rule, lo, hi int64) times {
	var out times
	steps := w.stepsBetween(lo, hi)
	last := len(steps) - 1
	for _, h := range steps[last] {
		s := search{r: r, steps: steps, step: last, hit: h, found: make(hits, len(steps))}
		s.found[last] = h
		if s.back(last-1) && (len(out) == 0 || out[len(out)-1] != h.t) {
			out = append(out, h.t)
		}
	}
	return out
}

// triggered is the trigger of a sequence that h completed.
func (w *window) triggered(sequence hits, h *hit) trigger {
	t := trigger{t: sequence[len(sequence)-1].t, from: sequence[0].t - 1, sequence: sequence, line: h}
	if !w.several {
		for _, hs := range w.steps {
			t.lines += int64(hs.since(t.t) - hs.since(t.from))
		}
		return t
	}
	seen := map[uint64]bool{}
	for _, hs := range w.steps {
		for _, x := range hs[hs.since(t.from):] {
			if x.t <= t.t && !seen[x.id] {
				seen[x.id] = true
				t.lines++
			}
		}
	}
	return t
}

// search is the state of one search: found[i+1:] is chosen while step i is
// looked for.
type search struct {
	r     *rules.Rule
	steps []hits
	step  int // that hit serves
	hit   *hit
	found hits
	tries int
}

// back chooses steps i, i-1, ..., 0, each as late as possible.
func (s *search) back(i int) bool {
	if i < 0 {
		return true
	}
	candidates := s.steps[i]
	if i == s.step {
		candidates = hits{s.hit}
	}
	upper, end := s.found[i+1].t, s.found[len(s.found)-1].t
	var tried map[string]bool
	for k := len(candidates) - 1; k >= 0; k-- {
		c := candidates[k]
		if c.t > upper {
			continue
		}
		if end-c.t >= int64(s.r.Within) || i > s.step && c.t < s.hit.t {
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
		if c.several {
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
func (s *search) fits(i int, c *hit) bool {
	for k := i + 1; k < len(s.found); k++ {
		if s.found[k].id == c.id {
			return false
		}
		for _, name := range s.r.Steps[k].Differs {
			if v := c.value(name); v != "" && v == s.found[k].value(name) {
				return false
			}
		}
	}
	return true
}

// values returns what `differs` looks at.
func (s *search) values(c *hit) string {
	var b strings.Builder
	for _, step := range s.r.Steps {
		for _, name := range step.Differs {
			b.WriteString(c.value(name))
			b.WriteByte(0)
		}
	}
	return b.String()
}
