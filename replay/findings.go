package replay

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/text"
	"crowsnest/matcher"
	"crowsnest/rules"
)

// Doubt is why a failure that a rule describes is no alert.
type Doubt string

// The doubts.
const (
	// TooShort means that the log covers less time than the rule asks for.
	TooShort Doubt = "too_short"
	// TooFew means that the rule asks for more lines.
	TooFew Doubt = "too_few"
	// Waiting means that the rule asks for another line, or for proof that there is none.
	Waiting Doubt = "waiting"
	// Elsewhere means that a line of another file ended the failure, if both files are of one place.
	Elsewhere Doubt = "elsewhere"
	// Recovered means that a line ended the failure before it became an alert.
	Recovered Doubt = "recovered"
)

// Finding is a failure that lines of the log show and a rule describes, and that is no alert.
type Finding struct {
	// Episode is what the alert would be. Its count and times are those of all matching
	// lines of its key. It has an end if the failure is over.
	Episode episodes.Episode
	Doubt   Doubt
	// Missing is a clause about what an alert needs beyond what the log shows.
	Missing string
	// Matched are the parts of its newest line that texts and expressions of the rule match.
	Matched []string
	// Also are the general rules that match the same lines.
	Also []string
	// Decided means that the log continues for long enough after the newest line that the
	// failure did not become an alert.
	Decided bool
}

// finder collects findings. It runs the engine over the hits with rules that open an episode at
// each first line, and compares the result with the alerts.
type finder struct {
	session  *session
	timeless *timeless
	eager    map[*rules.Rule]*rules.Rule // by the rule that hits are of; no entry: not described
	found    map[episodes.Fingerprint]episodes.Episode
	alerted  map[episodes.Fingerprint]bool
	alerts   map[string]bool        // names of those that fired
	omitted  int                    // failures beyond maxFound
	steps    map[*rules.Rule]uint64 // bits of the steps that were seen, of rules with a sequence
	shared   map[*rules.Rule]sharedLines
	inputs   map[*rules.Rule][]int // inputs with lines of a rule, at most maxInputs
	first    time.Time             // time of the earliest hit
	hits     []matcher.Hit         // buffer
	doubted  []episodes.Episode    // alerts that are none if a line of another file ended them
	// elsewhere returns a line of another file that may have ended a failure.
	elsewhere func(*episodes.Episode) (ending, bool)
}

// sharedLines counts the lines of a rule, and those that each other rule matches too.
type sharedLines struct {
	lines int64
	also  map[*rules.Rule]int64
}

// maxFound bounds the failures that are kept until the end of the input.
const maxFound = 2_000

// maxInputs bounds the inputs that are known to have lines of a rule.
const maxInputs = 100

// maxSteps bounds the steps of a sequence that are distinguished.
const maxSteps = 64

func newFinder(target Target, cfg episodes.Config, timeless *timeless, reads func(rules.Selector) bool) *finder {
	f := &finder{
		timeless: timeless, eager: map[*rules.Rule]*rules.Rule{}, found: map[episodes.Fingerprint]episodes.Episode{},
		alerted: map[episodes.Fingerprint]bool{}, alerts: map[string]bool{},
		steps: map[*rules.Rule]uint64{}, shared: map[*rules.Rule]sharedLines{},
		inputs:    map[*rules.Rule][]int{},
		elsewhere: func(*episodes.Episode) (e ending, ok bool) { return e, false },
	}
	set := *target.Set
	set.Rules = nil
	for _, r := range target.Set.Rules {
		if r.Silent == 0 && r.Mode == rules.ModeOn {
			f.eager[r] = eager(r)
			set.Rules = append(set.Rules, f.eager[r])
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
	for i := range hits {
		h := hits[i]
		rule := f.eager[h.Rule]
		if rule == nil {
			continue
		}
		if h.Part >= 0 {
			f.steps[h.Rule] |= 1 << min(h.Part, maxSteps-1)
			f.compare(h.Rule, hits)
			if in := f.inputs[h.Rule]; len(in) < maxInputs && (len(in) == 0 || in[len(in)-1] != input) && !slices.Contains(in, input) {
				f.inputs[h.Rule] = append(in, input)
			}
			h.Part = 0
		}
		h.Rule = rule
		f.hits = append(f.hits, h)
	}
}

// compare counts a line of a rule, and the other rules that match it.
func (f *finder) compare(r *rules.Rule, hits []matcher.Hit) {
	b := f.shared[r]
	b.lines++
	for i := range hits {
		if o := hits[i].Rule; o != r && hits[i].Part >= 0 {
			if b.also == nil {
				b.also = map[*rules.Rule]int64{}
			}
			b.also[o]++
		}
	}
	f.shared[r] = b
}

// note keeps the newest state of a failure.
func (f *finder) note(x episodes.Episode) {
	f.session.resolved = f.session.resolved[:0]
	if x.Overflow || x.State == episodes.StateDropped || x.State == episodes.StateResolved && x.Reason != episodes.ReasonClear {
		return
	}
	f.keep(x)
}

// keep keeps a state of a failure, unless an alert reports it.
func (f *finder) keep(x episodes.Episode) {
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
	f.alerted[x.Fingerprint], f.alerts[x.Alert] = true, true
}

// Coverage is the time from the first line of a log to its last one.
type Coverage struct {
	From, To time.Time // zero if no line states a time
}

// Length returns the length of the time, or zero if it is not known.
func (c Coverage) Length() time.Duration {
	if c.From.IsZero() {
		return 0
	}
	return c.To.Sub(c.From)
}

// String is a clause such as "the log covers 7 seconds".
func (c Coverage) String() string {
	if c.From.IsZero() {
		return "its lines state no time, so it is not known how long the log is"
	}
	return "the log covers " + span(c.Length())
}

// excerptShare is the part of all lines, as one in so many, that belongs to a failure in an excerpt,
// which a person cut out of a log around the failure.
const excerptShare = 10

// endOf returns the earliest end of the inputs with lines of a rule, and their number of lines. The end
// is zero if it is not known.
func (f *finder) endOf(r *rules.Rule, ends []int64, outcomes []Outcome) (end time.Time, lines int64) {
	for _, input := range f.inputs[r] {
		if input >= len(ends) || ends[input] == 0 {
			return time.Time{}, 0
		}
		lines += outcomes[input].Lines
		if t := time.Unix(0, ends[input]); end.IsZero() || t.Before(end) {
			end = t
		}
	}
	return end, lines
}

// findings returns what no alert reports, the most likely first. A failure that the inputs show to
// be no alert is one only in an excerpt. ends are the times of the last lines of the inputs, in
// nanoseconds, or 0.
func (f *finder) findings(c Coverage, ends []int64, outcomes []Outcome) []Finding {
	if f.session.now.IsZero() {
		return nil
	}
	f.session.settle(f.session.now.Add(time.Hour)) // the lines that mute are read
	for _, x := range f.session.engine.Episodes(f.session.now) {
		if x.State == episodes.StateFiring && !x.Overflow {
			f.keep(x) // with its newest texts
		}
	}
	original := map[*rules.Rule]*rules.Rule{}
	for r, e := range f.eager {
		original[e] = r
	}
	var all []Finding
	for _, x := range f.doubted {
		all = append(all, f.judge(x, c, time.Time{}))
	}
	for _, x := range f.found {
		x.Rule = original[x.Rule]
		if !isEvidence(&x) {
			continue
		}
		end, lines := f.endOf(x.Rule, ends, outcomes)
		if x := f.judge(x, c, end); !x.Decided || x.Doubt == Recovered || x.Episode.Count*excerptShare >= lines {
			all = append(all, x)
		}
	}
	all = f.fold(all)
	slices.SortFunc(all, byWeight)
	return all
}

// evidenceShare is the part of the lines that a rule counts without which nothing shows a failure:
// one conflict is no storm of conflicts.
const evidenceShare = 10

// isEvidence reports whether the lines of an episode show a failure. Those of a rule that asks for
// a second line, or for its absence, may be what a healthy program says.
func isEvidence(x *episodes.Episode) bool {
	r := x.Rule
	if (r.Sequence || r.Clear != nil) && !matcher.Complains(string(x.Line)) && !matcher.Complains(string(x.First)) {
		return false
	}
	return x.Count*evidenceShare >= int64(r.Count)
}

// judge says why a failure is no alert. The inputs with its lines continue until end; zero means that
// this is not known.
func (f *finder) judge(x episodes.Episode, c Coverage, end time.Time) Finding {
	r := x.Rule
	x.FiredAt = time.Time{} // it opened at its first line
	if x.State == episodes.StateFiring {
		x.State = episodes.StatePending
	}
	out := Finding{Episode: x, Matched: matchedTexts(r, string(x.Line))}
	if f.timeless.has(&x) {
		c, end = Coverage{}, time.Time{}
	}
	out.Decided = !end.IsZero() && end.Sub(x.LastSeen) > max(r.For, r.Within)
	seen := text.Plural(x.Count, "line") + " seen"
	recovery, elsewhere := f.elsewhere(&x)
	switch {
	case x.State == episodes.StateResolved:
		out.Doubt, out.Missing, out.Decided = Recovered, "recovered", true
		if !f.timeless.has(&x) {
			out.Missing += " after " + span(x.EndsAt.Sub(x.StartsAt))
		}
	case elsewhere:
		out.Doubt, out.Decided = Elsewhere, false
		out.Missing = "perhaps over: a line of " + recovery.String() + " ends it, unless that log is of another place"
	case r.Sequence:
		out.Doubt, out.Missing = Waiting, f.missingSteps(r)
		if f.timeless.has(&x) {
			out.Missing += "; " + c.String()
		}
	case r.Count > 1:
		out.Doubt, out.Missing = TooFew, fmt.Sprintf("alerts %s; %s", amount(r), seen)
		if c.Length() < r.Within {
			out.Doubt, out.Missing = TooShort, out.Missing+", and "+c.String()
		}
	case r.Clear != nil && f.session.reads != nil && !f.session.reads(r.Clear.From):
		out.Doubt = Waiting
		out.Missing = fmt.Sprintf("alerts if no recovery follows within %s, which these logs cannot show: it is in %s", span(r.For), r.Clear.From)
	case r.For > 0 && c.Length() < r.For:
		out.Doubt, out.Missing = TooShort, fmt.Sprintf("alerts if it lasts %s; %s", span(r.For), c.String())
	case r.For > 0:
		out.Doubt, out.Missing = TooFew, fmt.Sprintf("alerts if it lasts %s; %s over %s", span(r.For), seen, span(x.LastSeen.Sub(x.StartsAt)))
	default:
		out.Doubt, out.Missing = Waiting, "alerts if no other line mutes it, which these logs cannot show"
	}
	return out
}

// amount says what a rule counts.
func amount(r *rules.Rule) string {
	switch {
	case r.DistinctTime() > 0:
		return fmt.Sprintf("if it repeats in %d different %ss within %s", r.Count, r.Distinct, span(r.Within))
	case r.Distinct != "":
		return fmt.Sprintf("at %d different values of %s within %s", r.Count, r.Distinct, span(r.Within))
	}
	return fmt.Sprintf("at %d lines within %s", r.Count, span(r.Within))
}

// span writes a duration in words, with its two largest units, such as "1 hour 30 minutes".
func span(d time.Duration) string {
	if d < time.Second {
		return "less than a second"
	}
	var out []string
	for _, unit := range []struct {
		name string
		of   time.Duration
	}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"minute", time.Minute}, {"second", time.Second}} {
		if n := int64(d / unit.of); n > 0 && len(out) < 2 {
			out = append(out, text.Plural(n, unit.name))
		}
		d %= unit.of
	}
	return strings.Join(out, " ")
}

// missingSteps says which steps of a sequence no line matched.
func (f *finder) missingSteps(r *rules.Rule) string {
	var missing []string
	for i := range r.Steps {
		if f.steps[r]&(1<<min(i, maxSteps-1)) == 0 {
			missing = append(missing, fmt.Sprintf("line %d of %d: %s", i+1, len(r.Steps), summarize(&r.Steps[i].Matcher)))
		}
	}
	switch {
	case len(missing) > 0:
		return fmt.Sprintf("alerts if this follows within %s: %s", span(r.Within), strings.Join(missing, " and "))
	case r.For > 0:
		return fmt.Sprintf("alerts if its %d lines come in order within %s, and it lasts %s", len(r.Steps), span(r.Within), span(r.For))
	}
	return fmt.Sprintf("alerts if its %d lines come in order, for one failure, within %s", len(r.Steps), span(r.Within))
}

// summarize names the texts that a line must contain.
func summarize(m *rules.Matcher) string {
	if texts := textsOf(m); len(texts) > 0 {
		return "`" + strings.Join(texts, "`, `") + "`"
	}
	return "a match of an expression"
}

func textsOf(m *rules.Matcher) []string {
	if len(m.Contains) > 0 {
		return m.Contains
	}
	for i := range m.Any {
		if texts := textsOf(&m.Any[i]); len(texts) > 0 {
			return texts
		}
	}
	if m.Regex != nil {
		return []string{m.Regex.String()}
	}
	return nil
}

// matchedTexts returns the parts of a line that texts and expressions of a rule's steps match.
func matchedTexts(r *rules.Rule, line string) (out []string) {
	var walk func(m *rules.Matcher)
	walk = func(m *rules.Matcher) {
		for _, t := range m.Contains {
			if strings.Contains(line, t) && !slices.Contains(out, t) {
				out = append(out, t)
			}
		}
		if m.Regex != nil {
			if t := m.Regex.Regexp().FindString(line); t != "" {
				out = append(out, t)
			}
		}
		for i := range m.Any {
			walk(&m.Any[i])
		}
	}
	for i := range r.Steps {
		walk(&r.Steps[i].Matcher)
	}
	return out
}

// fold removes the findings of general rules whose lines all belong to a finding or an alert of a
// more special rule, and names them there.
func (f *finder) fold(all []Finding) []Finding {
	special := map[*rules.Rule]*rules.Rule{} // by the more general rule
	present := map[*rules.Rule]bool{}
	for i := range all {
		present[all[i].Episode.Rule] = true
	}
	for r := range present {
		b := f.shared[r]
		for o, n := range b.also {
			if n == b.lines && moreSpecial(o, r) && (present[o] || f.alerts[o.Alert]) {
				if s := special[r]; s == nil || moreSpecial(o, s) {
					special[r] = o
				}
			}
		}
	}
	also := map[*rules.Rule][]string{}
	for r, s := range special {
		also[s] = append(also[s], r.Alert)
	}
	all = slices.DeleteFunc(all, func(x Finding) bool { return special[x.Episode.Rule] != nil })
	for i := range all {
		all[i].Also = also[all[i].Episode.Rule]
		slices.Sort(all[i].Also)
	}
	return all
}

// moreSpecial reports whether b reads the logs of every program and a does not.
func moreSpecial(a, b *rules.Rule) bool { return general(b) && !general(a) }

// general reports whether a rule reads the logs of every program.
func general(r *rules.Rule) bool {
	return r.From.Matches(map[string]string{"container": "\x00", "namespace": "\x00", "pod": "\x00"}, false)
}

// byWeight orders findings: those that may still become an alert, of special rules, severe, and
// with many lines come first.
func byWeight(a, b Finding) int {
	return cmp.Or(
		compareBool(a.Doubt == Recovered, b.Doubt == Recovered),
		compareBool(a.Decided, b.Decided),
		compareBool(general(a.Episode.Rule), general(b.Episode.Rule)),
		cmp.Compare(rank(a), rank(b)),
		cmp.Compare(b.Episode.Count, a.Episode.Count),
		a.Episode.StartsAt.Compare(b.Episode.StartsAt),
		cmp.Compare(a.Episode.Alert, b.Episode.Alert),
		cmp.Compare(text.Labels(a.Episode.Labels), text.Labels(b.Episode.Labels)),
	)
}

func rank(f Finding) int {
	return slices.Index([]string{"critical", "warning", "info", "none"}, f.Episode.Labels["severity"])
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
