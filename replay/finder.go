package replay

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/times"
	"crowsnest/matcher"
	"crowsnest/redact"
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
// line, and compares the result with the alerts. The engine sees the first and the newest line
// of each key, once a line comes that could end its failure, or at the end.
type finder struct {
	session  *session
	timeless *timeless
	rules    map[*rules.Rule]*shownRule  // shown rules by the rule of the hits; a rule without an entry is not described
	original map[*rules.Rule]*rules.Rule // original rules by the engine's rule
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

	keys    map[string]*shownKey
	key     []byte // buffer
	kept    int    // bytes of lines
	waiting []*shownKey
}

// shownRule is what the lines show of a rule.
type shownRule struct {
	index   int
	eager   *rules.Rule
	lasting bool        // no line ends its failures
	counts  bool        // its texts have the number of lines, so the engine must see all
	open    int         // keys with lines
	pending []*shownKey // with lines that the engine has not seen
	steps   uint64      // bits of the steps that were seen, if it has a sequence
	inputs  []int       // with its lines, at most maxInputs
	lines   int64
	also    map[*rules.Rule]int64 // number of these lines that another rule matches as well
}

// shownKey is the lines of one key of a rule, since the last line that ended its failure.
type shownKey struct {
	of            *shownRule
	first, newest keptHit      // newest is empty if the engine has seen it
	next          *matcher.Hit // the newest line, in memory of the caller
	at            time.Time    // the time of the newest line
	id            uint64       // the ID of the last line
	count         int64
	opened        bool // the engine has seen the first line
	pending       bool // the key is in that list of its rule
}

func newFinder(target Target, cfg episodes.Config, timeless *timeless, reads func(rules.Selector) bool) *finder {
	f := &finder{
		timeless: timeless, rules: map[*rules.Rule]*shownRule{}, found: map[episodes.Fingerprint]episodes.Episode{},
		alerted: map[episodes.Fingerprint]bool{}, known: map[string]bool{}, alerts: map[*rules.Rule]bool{}, keys: map[string]*shownKey{},
		original:  map[*rules.Rule]*rules.Rule{},
		elsewhere: func(*episodes.Episode) (e ending, ok bool) { return e, false },
	}
	set := *target.Set
	set.Rules = nil
	for i, r := range target.Set.Rules {
		if r.Silent == 0 && r.Mode == rules.ModeOn {
			s := &shownRule{index: i, eager: eager(r), lasting: r.Clear == nil && r.Unless == nil}
			s.counts = slices.ContainsFunc(r.Annotations, func(a rules.NamedTemplate) bool { return a.Template.UsesValue() })
			f.rules[r], f.original[s.eager] = s, r
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
	f.run()
	for _, k := range f.waiting {
		if k.next != nil {
			before := cap(k.newest.text)
			k.newest.set(k.next)
			k.next, f.kept = nil, f.kept+cap(k.newest.text)-before
		}
	}
	f.waiting = f.waiting[:0]
}

// run passes the hits to the engine.
func (f *finder) run() {
	if len(f.hits) == 0 {
		return
	}
	if f.session.now.IsZero() {
		f.session.now = f.hits[0].Time
	}
	f.session.takeRecorded(f.hits)
	f.hits = f.hits[:0]
}

// takeLine takes the hits of one line.
func (f *finder) takeLine(input int, hits []matcher.Hit) {
	if t := hits[0].Time; f.first.IsZero() || t.Before(f.first) {
		f.first = t
	}
	f.last = times.Later(f.last, hits[0].Time)
	for i := range hits {
		h := &hits[i]
		r := f.rules[h.Rule]
		if r == nil {
			continue
		}
		if h.Part < 0 {
			f.flush(r)
			f.add(h, r)
			f.run()
			continue
		}
		r.steps |= 1 << min(h.Part, maxSteps-1)
		r.note(input, h.Rule, hits)
		f.setKey(r, h.Values[:len(h.Rule.By)], h.Labels)
		if !f.known[string(f.key)] && (r.counts || !f.keep(r, h)) {
			f.add(h, r)
		}
	}
}

// add adds a hit to those for the engine.
func (f *finder) add(h *matcher.Hit, r *shownRule) {
	f.hits = append(f.hits, *h)
	x := &f.hits[len(f.hits)-1]
	if x.Rule = r.eager; x.Part > 0 {
		x.Part = 0
	}
}

// flush adds the lines of a rule that the engine has not seen.
func (f *finder) flush(r *shownRule) {
	for _, k := range r.pending {
		if !k.opened {
			h := k.first.get()
			f.add(&h, r)
		}
		if k.next != nil {
			f.add(k.next, r)
		} else if len(k.newest.ends) > 0 {
			h := k.newest.get()
			f.add(&h, r)
		}
		k.opened, k.pending, k.next, k.newest.ends = true, false, nil, nil
	}
	r.pending = r.pending[:0]
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

// keep keeps a line of the key. It returns false if there is no room.
func (f *finder) keep(r *shownRule, h *matcher.Hit) bool {
	k := f.keys[string(f.key)]
	if k == nil {
		if len(f.keys) >= maxFound || f.kept > maxKept {
			return false
		}
		if r.open == h.Rule.Limit {
			return true
		}
		k = &shownKey{of: r}
		f.keys[string(f.key)] = k
	}
	switch {
	case k.count == 0 && r.open == h.Rule.Limit:
		return true
	case k.count == 0:
		r.open++
	case k.id == h.ID:
		return true // a repeat
	}
	k.id = h.ID
	switch k.count++; {
	case k.count == 1:
		before := cap(k.first.text)
		k.first.set(h)
		f.kept += cap(k.first.text) - before
	case !h.Time.Before(k.at):
		if k.next == nil {
			f.waiting = append(f.waiting, k)
		}
		k.next = h
	default:
		return true
	}
	if k.at = h.Time; !k.pending {
		k.pending, r.pending = true, append(r.pending, k)
	}
	return true
}

// keptHit is a hit with memory of its own.
type keptHit struct {
	hit  matcher.Hit // without its line and values
	text []byte      // text of the line and its values
	ends []int       // end of the line and of each value in text
}

func (k *keptHit) set(h *matcher.Hit) {
	k.text, k.ends = append(k.text[:0], h.Line...), append(k.ends[:0], len(h.Line))
	for _, v := range h.Values {
		k.text = append(k.text, v...)
		k.ends = append(k.ends, len(k.text))
	}
	k.hit = *h
	k.hit.Line, k.hit.Values = "", nil
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
	if k := f.keyOf(&x); k != nil {
		if x.Annotations["count"] == strconv.FormatInt(x.Count, 10) {
			x.Annotations = maps.Clone(x.Annotations)
			x.Annotations["count"] = strconv.FormatInt(k.count, 10)
		}
		x.Count = k.count
		if k.count > 0 && (x.State == episodes.StateResolved || x.State == episodes.StateDropped) {
			k.of.open--
			k.count, k.opened = 0, false
		}
	}
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

// keyOf returns the key of an episode of the engine, nil if it was not kept.
func (f *finder) keyOf(x *episodes.Episode) *shownKey {
	r := f.original[x.Rule]
	if r == nil || x.Overflow {
		return nil
	}
	f.setKeyOf(r, x)
	if k := f.keys[string(f.key)]; k != nil || !slices.ContainsFunc(r.By, func(name string) bool { return strings.Contains(x.Labels[name], redact.Mask) }) {
		return k
	}
	for _, k := range f.keys {
		if k.first.hit.Rule == r && k.first.hit.Time.Equal(x.StartsAt) {
			return k
		}
	}
	return nil
}

// failures returns the failures that lines show and that are no alerts, with their newest texts,
// by the rules that hits are of.
func (f *finder) failures() []episodes.Episode {
	if f.last.IsZero() {
		return nil
	}
	for _, e := range f.session.set.Rules {
		if r := f.rules[f.original[e]]; !r.lasting {
			f.flush(r)
		}
	}
	slices.SortStableFunc(f.hits, func(a, b matcher.Hit) int { return a.Time.Compare(b.Time) })
	f.run()
	f.session.settle(f.last.Add(time.Hour)) // the lines that mute are read
	for _, e := range f.session.set.Rules {
		f.flush(f.rules[f.original[e]])
	}
	f.session.engine.Take(f.hits, f.session.now)
	for _, x := range f.session.engine.Episodes(f.session.now) {
		if x.State == episodes.StateFiring && !x.Overflow {
			f.note(x)
		}
	}
	var out []episodes.Episode
	for _, x := range f.found {
		x.Rule = f.original[x.Rule]
		out = append(out, x)
	}
	return out
}
