package replay

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/times"
	"crowsnest/matcher"
	"crowsnest/rules"
)

const (
	// maxFound bounds the failures that are kept until the end of the input.
	maxFound = 2_000
	// maxKept bounds the bytes of lines that are kept until then.
	maxKept = 16 << 20
	// maxInputs bounds the inputs that are known to have lines of a rule.
	maxInputs = 100
	// maxSteps bounds the steps of a sequence that are distinguished.
	maxSteps = 64
)

// finder collects findings. It runs an engine with rules that open an episode at each first
// line, and compares the result with the alerts.
type finder struct {
	session  *session
	timeless *timeless
	rules    map[*rules.Rule]*shownRule // by the rule that hits are of; no entry: not described
	found    map[episodes.Fingerprint]episodes.Episode
	alerted  map[episodes.Fingerprint]bool
	known    map[string]bool      // keys of these alerts
	alerts   map[*rules.Rule]bool // their rules
	omitted  int                  // failures beyond maxFound
	first    time.Time            // time of the earliest hit
	last     time.Time            // time of the latest one
	hits     []matcher.Hit        // buffer
	doubted  []episodes.Episode   // alerts that are none if a line of another file ended them
	// elsewhere returns a line of another file that may have ended a failure.
	elsewhere func(*episodes.Episode) (ending, bool)

	keys  []*shownKey
	byKey map[string]*shownKey
	key   []byte // buffer
	kept  int    // bytes
}

// shownRule is what the lines show of a rule.
type shownRule struct {
	index int
	eager *rules.Rule
	// lasting means that only the first and the newest line of a key matter, because no line
	// ends a failure.
	lasting bool
	keys    int
	steps   uint64 // bits of the steps that were seen, if it has a sequence
	inputs  []int  // with its lines, at most maxInputs
	lines   int64
	also    map[*rules.Rule]int64 // of these lines, those that another rule matches, too
}

// shownKey is the lines of one key of a rule whose failures no line ends.
type shownKey struct {
	first, newest keptHit
	count         int64
}

func newFinder(target Target, cfg episodes.Config, timeless *timeless, reads func(rules.Selector) bool) *finder {
	f := &finder{
		timeless: timeless, rules: map[*rules.Rule]*shownRule{}, found: map[episodes.Fingerprint]episodes.Episode{},
		alerted: map[episodes.Fingerprint]bool{}, known: map[string]bool{}, alerts: map[*rules.Rule]bool{}, byKey: map[string]*shownKey{},
		elsewhere: func(*episodes.Episode) (e ending, ok bool) { return e, false },
	}
	set := *target.Set
	set.Rules = nil
	for i, r := range target.Set.Rules {
		if r.Silent == 0 && r.Mode == rules.ModeOn {
			s := &shownRule{index: i, eager: eager(r), lasting: r.Clear == nil && r.Unless == nil}
			f.rules[r] = s
			set.Rules = append(set.Rules, s.eager)
		}
	}
	f.session = newSession(&set, target.Program, time.Time{}, cfg)
	f.session.reads = reads
	f.session.notify = f.note
	f.session.engine = f.session.newEngine()
	return f
}

// eager returns a rule that opens an episode at the first line that matches r or one of its
// steps. Only a clear line ends it.
func eager(r *rules.Rule) *rules.Rule {
	e := *r
	e.Steps, e.Sequence = r.Steps[:1:1], false
	e.Count, e.Within, e.Distinct, e.For = 1, 0, "", 0
	e.KeepFiringFor, e.Expire = math.MaxInt64/4, math.MaxInt64/4
	e.Causes = nil
	return &e
}

// take takes hits of an input in the order of their times, all hits of one line together.
func (f *finder) take(input int, hits []matcher.Hit) {
	f.hits = f.hits[:0]
	for len(hits) > 0 {
		n := 1
		for n < len(hits) && hits[n].LineNumber == hits[0].LineNumber {
			n++
		}
		f.takeLine(input, hits[:n])
		hits = hits[n:]
	}
	if len(f.hits) == 0 {
		return
	}
	if f.session.now.IsZero() {
		f.session.now = f.hits[0].Time
	}
	f.session.takeRecorded(f.hits)
}

// takeLine takes the hits of one line.
func (f *finder) takeLine(input int, hits []matcher.Hit) {
	if t := hits[0].Time; f.first.IsZero() || t.Before(f.first) {
		f.first = t
	}
	f.last = times.Later(f.last, hits[0].Time)
	for _, h := range hits {
		r := f.rules[h.Rule]
		if r == nil {
			continue
		}
		if h.Part >= 0 {
			r.steps |= 1 << min(h.Part, maxSteps-1)
			r.note(input, h.Rule, hits)
			h.Part = 0
			f.setKey(r, h.Values[:len(h.Rule.By)], h.Labels)
			if f.known[string(f.key)] || r.lasting && f.keep(r, &h) {
				continue
			}
		}
		h.Rule = r.eager
		f.hits = append(f.hits, h)
	}
}

// setKey sets key to that of a failure of a rule.
func (f *finder) setKey(r *shownRule, by []string, labels matcher.Labels) {
	f.key = binary.AppendUvarint(f.key[:0], uint64(r.index))
	for _, v := range by {
		f.key = append(binary.AppendUvarint(f.key, uint64(len(v))), v...)
	}
	for _, name := range scanIdentity {
		v := labels[name]
		f.key = append(binary.AppendUvarint(f.key, uint64(len(v))), v...)
	}
}

// note counts a line of a rule, and the other rules that match it.
func (s *shownRule) note(input int, r *rules.Rule, hits []matcher.Hit) {
	s.lines++
	for i := range hits {
		if o := hits[i].Rule; o != r && hits[i].Part >= 0 {
			if s.also == nil {
				s.also = map[*rules.Rule]int64{}
			}
			s.also[o]++
		}
	}
	if n := len(s.inputs); n < maxInputs && (n == 0 || s.inputs[n-1] != input) && !slices.Contains(s.inputs, input) {
		s.inputs = append(s.inputs, input)
	}
}

// keep keeps the first and the newest line of the key. It returns false if there is no room.
func (f *finder) keep(r *shownRule, h *matcher.Hit) bool {
	k := f.byKey[string(f.key)]
	switch {
	case k == nil && (len(f.keys) >= maxFound || f.kept > maxKept):
		return false
	case k == nil:
		if r.keys++; r.keys > h.Rule.Limit {
			f.omitted++
			return true
		}
		k = &shownKey{count: 1}
		k.first.set(h, r.eager)
		f.keys, f.byKey[string(f.key)] = append(f.keys, k), k
		f.kept += len(k.first.text) + len(f.key)
		return true
	case h.ID == k.newest.hit.ID || h.ID == k.first.hit.ID:
		return true // a repeat
	}
	k.count++
	if k.newest.hit.Rule == nil || !h.Time.Before(k.newest.hit.Time) {
		before := cap(k.newest.text)
		k.newest.set(h, r.eager)
		f.kept += cap(k.newest.text) - before
	}
	return true
}

// keptHit is a hit with memory of its own.
type keptHit struct {
	hit  matcher.Hit // without its line and values
	text []byte      // which these are
	ends []int       // of the line and each value, in text
}

func (k *keptHit) set(h *matcher.Hit, r *rules.Rule) {
	k.text, k.ends = append(k.text[:0], h.Line...), append(k.ends[:0], len(h.Line))
	for _, v := range h.Values {
		k.text = append(k.text, v...)
		k.ends = append(k.ends, len(k.text))
	}
	k.hit = *h
	k.hit.Rule, k.hit.Line, k.hit.Values = r, "", nil
}

// get returns the hit as it was.
func (k *keptHit) get() matcher.Hit {
	h, text := k.hit, string(k.text)
	h.Line = text[:k.ends[0]]
	for i, end := range k.ends[1:] {
		h.Values = append(h.Values, text[k.ends[i]:end])
	}
	return h
}

// note keeps the newest state of a failure.
func (f *finder) note(x episodes.Episode) {
	f.session.resolved = f.session.resolved[:0]
	if x.Overflow || x.State == episodes.StateDropped || x.State == episodes.StateResolved && x.Reason != episodes.ReasonClear {
		return
	}
	_, known := f.found[x.Fingerprint]
	switch {
	case f.alerted[x.Fingerprint]:
	case known || len(f.found) < maxFound:
		f.found[x.Fingerprint] = x
	default:
		f.omitted++
	}
}

// fired states that a failure became an alert.
func (f *finder) fired(x *episodes.Episode) {
	if f == nil {
		return
	}
	delete(f.found, x.Fingerprint)
	f.alerted[x.Fingerprint], f.alerts[x.Rule] = true, true
	if f.rules[x.Rule] != nil && !x.Overflow {
		f.setKeyOf(x.Rule, x)
		f.known[string(f.key)] = true
	}
}

// setKeyOf sets key to that of an episode of a rule, unless secrets were hidden in it.
func (f *finder) setKeyOf(r *rules.Rule, x *episodes.Episode) {
	by := make([]string, len(r.By))
	for i, name := range r.By {
		by[i] = x.Labels[name]
	}
	f.setKey(f.rules[r], by, x.Labels)
}

// keyOf returns the key of an episode of a rule, nil if it was not kept.
func (f *finder) keyOf(r *rules.Rule, x *episodes.Episode) *shownKey {
	if !f.rules[r].lasting {
		return nil
	}
	f.setKeyOf(r, x)
	if k := f.byKey[string(f.key)]; k != nil {
		return k
	}
	i := slices.IndexFunc(f.keys, func(k *shownKey) bool { return k.first.hit.Rule == x.Rule && k.first.hit.Time.Equal(x.StartsAt) })
	if i < 0 {
		return nil
	}
	return f.keys[i]
}

// failures returns the failures that lines show and that are no alerts, with their newest texts,
// by the rules that hits are of.
func (f *finder) failures() []episodes.Episode {
	if f.last.IsZero() {
		return nil
	}
	f.session.settle(f.last.Add(time.Hour)) // the lines that mute are read
	for _, k := range f.keys {
		hits := []matcher.Hit{k.first.get()}
		if k.newest.hit.Rule != nil {
			hits = append(hits, k.newest.get())
		}
		f.session.engine.Take(hits, f.session.now)
	}
	original := map[*rules.Rule]*rules.Rule{}
	for r, s := range f.rules {
		original[s.eager] = r
	}
	for _, x := range f.session.engine.Episodes(f.session.now) {
		if x.State == episodes.StateFiring && !x.Overflow {
			if k := f.keyOf(original[x.Rule], &x); k != nil {
				x.Count = k.count
			}
			f.note(x)
		}
	}
	var out []episodes.Episode
	for _, x := range f.found {
		x.Rule = original[x.Rule]
		out = append(out, x)
	}
	return out
}
