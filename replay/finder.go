package replay

import (
	"math"
	"slices"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/times"
	"crowsnest/matcher"
	"crowsnest/rules"
)

const (
	// maxFound is the maximum number of failures that are kept until the end of the input.
	maxFound = 2_000
	// maxInputs is the maximum number of inputs that are recorded for one rule.
	maxInputs = 100
	// maxRepeats is the number of lines that are remembered to recognise repeats. Hits come in the order of time, so a
	// repeat in another input follows soon.
	maxRepeats = 2_048
	// maxSteps is the maximum number of steps of a sequence that are tracked separately.
	maxSteps = 64
)

// finder collects findings. It runs an engine with variants of the rules, which open an episode at the first line, and
// compares these episodes with the alerts.
type finder struct {
	session  *session
	timeless *timeless
	rules    map[*rules.Rule]*shownRule  // information about the rules whose hits lead to findings, by the rule of the hits
	original map[*rules.Rule]*rules.Rule // original rules, by the variant in the engine
	found    map[episodes.Fingerprint]episodes.Episode
	alerted  map[episodes.Fingerprint]bool
	alerts   map[*rules.Rule]bool // rules that raised an alert
	omitted  int                  // number of failures beyond maxFound
	first    time.Time            // time of the earliest hit
	last     time.Time            // time of the latest hit
	hits     []matcher.Hit        // reused buffer
	doubted  []episodes.Episode   // alerts that may be wrong, because a line of another file may have ended the failure
	// elsewhere returns a line of another file that may have ended a failure. It returns false if there is none.
	elsewhere func(*episodes.Episode) (lastClear, bool)
}

// shownRule collects information about the lines that match a rule.
type shownRule struct {
	eager       *rules.Rule // variant of the rule that opens an episode at the first line; nil if every failure of the rule is an alert
	steps       uint64      // bit set of the steps of a sequence that lines matched
	inputs      []int       // inputs with lines of the rule, at most maxInputs
	lines       int64
	sharedLines map[*rules.Rule]int64 // for each other rule, the number of lines that it matches too
}

// newFinder returns a finder. alerting means that another engine gets the same hits and raises alerts.
func newFinder(target Target, cfg episodes.Config, timeless *timeless, reads func(rules.Selector) bool, alerting bool) *finder {
	f := &finder{
		timeless: timeless, rules: map[*rules.Rule]*shownRule{}, original: map[*rules.Rule]*rules.Rule{},
		found: map[episodes.Fingerprint]episodes.Episode{}, alerted: map[episodes.Fingerprint]bool{}, alerts: map[*rules.Rule]bool{},
		elsewhere: func(*episodes.Episode) (e lastClear, ok bool) { return e, false },
	}
	set := *target.Set
	set.Rules = nil
	for _, r := range target.Set.Rules {
		if r.Silent == 0 && r.Mode == rules.ModeOn {
			s := new(shownRule)
			if f.rules[r] = s; !alerting || !firesAtOnce(r) {
				s.eager = eagerRule(r)
				f.original[s.eager] = r
				set.Rules = append(set.Rules, s.eager)
			}
		}
	}
	cfg.Fingerprints = maxRepeats
	f.session = newIdleSession(&set, target.Program, time.Time{}, cfg)
	f.session.reads = reads
	f.session.notify = f.noteState
	f.session.engine = f.session.newEngine()
	return f
}

// firesAtOnce reports whether each line of r raises an alert, so that r has no failure without an alert.
func firesAtOnce(r *rules.Rule) bool {
	return !r.Sequence && r.Count == 1 && r.Distinct == "" && r.For == 0 && r.Clear == nil && r.Unless == nil
}

// eagerRule returns a variant of r that opens an episode at the first line that r or one of its steps matches. Only a
// clear line ends the episode.
func eagerRule(r *rules.Rule) *rules.Rule {
	e := *r
	e.Steps, e.Sequence = r.Steps[:1:1], false
	e.Count, e.Within, e.Distinct, e.For = 1, 0, "", 0
	e.KeepFiringFor, e.Expire = math.MaxInt64/4, math.MaxInt64/4
	e.Causes = nil
	return &e
}

// addHits accepts hits of an input in the order of their times. All hits of one line must be in the same call.
func (f *finder) addHits(input int, hits []matcher.Hit) {
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

func (f *finder) takeLine(input int, hits []matcher.Hit) {
	if t := hits[0].Time; f.first.IsZero() || t.Before(f.first) {
		f.first = t
	}
	f.last = times.Max(f.last, hits[0].Time)
	for _, h := range hits {
		r := f.rules[h.Rule]
		if r == nil {
			continue
		}
		if h.Part >= 0 {
			r.steps |= 1 << min(h.Part, maxSteps-1)
			r.countLine(input, h.Rule, hits)
			h.Part = 0
		}
		if r.eager != nil {
			h.Rule = r.eager
			f.hits = append(f.hits, h)
		}
	}
}

// countLine counts a line of a rule, and the other rules that match the line.
func (s *shownRule) countLine(input int, r *rules.Rule, hits []matcher.Hit) {
	s.lines++
	for i := range hits {
		if o := hits[i].Rule; o != r && hits[i].Part >= 0 {
			if s.sharedLines == nil {
				s.sharedLines = map[*rules.Rule]int64{}
			}
			s.sharedLines[o]++
		}
	}
	if n := len(s.inputs); n < maxInputs && (n == 0 || s.inputs[n-1] != input) && !slices.Contains(s.inputs, input) {
		s.inputs = append(s.inputs, input)
	}
}

func (f *finder) noteState(x episodes.Episode) {
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

func (f *finder) noteFired(x *episodes.Episode) {
	if f == nil {
		return
	}
	delete(f.found, x.Fingerprint)
	f.alerted[x.Fingerprint], f.alerts[x.Rule] = true, true
}

// openFailures returns the failures without an alert. Their Rule is the original rule.
func (f *finder) openFailures() []episodes.Episode {
	if f.last.IsZero() {
		return nil
	}
	f.session.settleAt(f.last.Add(time.Hour)) // a line that can mute a failure may come later, at most an hour after the newest line
	for _, x := range f.session.engine.Episodes(f.session.now) {
		if x.State == episodes.StateFiring && !x.Overflow {
			f.noteState(x)
		}
	}
	var out []episodes.Episode
	for _, x := range f.found {
		x.Rule = f.original[x.Rule]
		out = append(out, x)
	}
	return out
}
