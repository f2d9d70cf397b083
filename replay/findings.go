package replay

import (
	"cmp"
	"fmt"
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
	// Untrusted means that the rule does not trust the namespace of the lines.
	Untrusted Doubt = "untrusted"
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
	// Also are further rules about the same: more general ones that match all of its lines, and chatter
	// about the same object.
	Also []string
	// Others are the further failures of the rule with this doubt.
	Others []episodes.Episode
	// Weak means that there are far fewer lines than the rule asks for.
	Weak bool
	// Decided means that the log continues for long enough after the newest line that the
	// failure did not become an alert.
	Decided bool
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
		return "the log states no time"
	}
	return "the log covers " + span(c.Length())
}

// excerptShare is the part of all lines, as one in so many, that belongs to a failure in an excerpt,
// which a person cut out of a log around the failure.
const excerptShare = 10

// excerptLength is the time that a log covers if it is not taken for an excerpt.
const excerptLength = 10 * time.Minute

// evidenceShare is the part of the lines that a rule counts without which a failure is weak: one
// conflict is no storm of conflicts.
const evidenceShare = 10

// endOf returns the earliest end of the inputs with lines of a rule, and their number of lines. The end
// is zero if it is not known.
func (s *shownRule) endOf(ends []int64, outcomes []Outcome) (end time.Time, lines int64) {
	for _, input := range s.inputs {
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
// nanoseconds, or 0. Alerts get the general rules whose lines are all theirs. few are the weak ones
// beside an alert or another finding.
func (f *finder) findings(c Coverage, ends []int64, outcomes []Outcome, alerts []Alert) (shown, few []Finding) {
	var all []Finding
	for _, x := range f.doubted {
		all = append(all, f.judge(x, c, time.Time{}))
	}
	for _, x := range f.failures() {
		if r := x.Rule; (r.Sequence || r.Clear != nil) && !complains(&x) {
			continue // a healthy program may log this line
		}
		end, lines := f.rules[x.Rule].endOf(ends, outcomes)
		switch x := f.judge(x, c, end); {
		case x.Weak && !(complains(&x.Episode) && (!x.Decided || c.Length() < excerptLength)):
		case !x.Decided || x.Doubt == Recovered || x.Weak || x.Episode.Count*excerptShare >= lines:
			all = append(all, x)
		}
	}
	all = f.fold(all, alerts)
	slices.SortFunc(all, byWeight)
	for _, x := range joined(all) {
		by := slices.IndexFunc(shown, func(o Finding) bool { return overshadows(&o, &x) })
		switch {
		case by >= 0:
			shown[by].Also = append(slices.Clip(shown[by].Also), x.Episode.Alert)
		case x.Weak && len(shown)+len(alerts) > 0:
			few = append(few, x)
		default:
			shown = append(shown, x)
		}
	}
	return shown, few
}

// complains reports whether the lines of an episode report a problem.
func complains(x *episodes.Episode) bool {
	return matcher.Complains(string(x.Line)) || matcher.Complains(string(x.First))
}

// judge says why a failure is no alert. The inputs with its lines continue until end; zero means that
// this is not known.
func (f *finder) judge(x episodes.Episode, c Coverage, end time.Time) Finding {
	r := x.Rule
	x.FiredAt = time.Time{} // the finder's rule fired at the first line, and the real one did not
	if x.State == episodes.StateFiring {
		x.State = episodes.StatePending
	}
	out := Finding{Episode: x, Matched: matchedTexts(r, string(x.Line)), Weak: x.Count*evidenceShare < int64(r.Count)}
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
		out.Doubt, out.Missing = Waiting, missingSteps(r, f.rules[r].steps)
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

// missingSteps says which steps of a sequence no line matched. seen has the bits of those that one did.
func missingSteps(r *rules.Rule, seen uint64) string {
	var missing []string
	for i := range r.Steps {
		if seen&(1<<min(i, maxSteps-1)) == 0 {
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

// fold removes the findings whose lines all belong to a finding or an alert of a better rule, and
// names them there: a more special one, or one of which there are enough lines.
func (f *finder) fold(all []Finding, alerts []Alert) []Finding {
	weak := map[*rules.Rule]bool{} // those with findings, and whether all are weak
	for i := range all {
		w, known := weak[all[i].Episode.Rule]
		weak[all[i].Episode.Rule] = all[i].Weak && (w || !known)
	}
	better := map[*rules.Rule]*rules.Rule{}
	also := map[*rules.Rule][]string{}
	for r, w := range weak {
		s := f.rules[r]
		for o, n := range s.also {
			ow, found := weak[o]
			if n != s.lines || !found && !f.alerts[o] || ow && !w || w == ow && !moreSpecial(o, r) {
				continue
			}
			if b := better[r]; b == nil || moreSpecial(o, b) {
				better[r] = o
			}
		}
	}
	for r := range better {
		o := r
		for better[o] != nil {
			o = better[o]
		}
		also[o] = append(also[o], r.Alert)
	}
	for _, names := range also {
		slices.Sort(names)
	}
	all = slices.DeleteFunc(all, func(x Finding) bool { return better[x.Episode.Rule] != nil })
	for i := range all {
		all[i].Also = also[all[i].Episode.Rule]
	}
	for i := range alerts {
		alerts[i].Also = also[alerts[i].Episode.Rule]
	}
	return all
}

// overshadows reports whether b is chatter, of severity info, about an object of which a reports a
// problem.
func overshadows(a, b *Finding) bool {
	y := &b.Episode
	if rank(*a) >= rank(*b) || rules.Severity(y.Labels["severity"]) != rules.SeverityInfo || !complains(&a.Episode) || len(b.Others) > 0 || len(y.Rule.By) == 0 {
		return false
	}
	same := func(x episodes.Episode) bool {
		return !slices.ContainsFunc(y.Rule.By, func(name string) bool { return y.Labels[name] == "" || y.Labels[name] != x.Labels[name] })
	}
	return same(a.Episode) || slices.ContainsFunc(a.Others, same)
}

// joined makes one finding of those of one rule with one doubt, in their order.
func joined(all []Finding) (out []Finding) {
	type kind struct {
		rule  *rules.Rule
		doubt Doubt
	}
	at := map[kind]int{}
	for _, x := range all {
		k := kind{x.Episode.Rule, x.Doubt}
		if i, ok := at[k]; ok {
			out[i].Others = append(out[i].Others, x.Episode)
			continue
		}
		at[k] = len(out)
		out = append(out, x)
	}
	return out
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
	if c := cmp.Or(
		compareBool(a.Weak, b.Weak),
		compareBool(a.Doubt == Recovered, b.Doubt == Recovered),
		compareBool(a.Doubt == Untrusted, b.Doubt == Untrusted),
		compareBool(a.Decided, b.Decided),
		compareBool(general(a.Episode.Rule), general(b.Episode.Rule)),
		cmp.Compare(rank(a), rank(b)),
		cmp.Compare(b.Episode.Count, a.Episode.Count),
		a.Episode.StartsAt.Compare(b.Episode.StartsAt),
		cmp.Compare(a.Episode.Alert, b.Episode.Alert),
	); c != 0 {
		return c
	}
	return cmp.Compare(text.Labels(a.Episode.Labels), text.Labels(b.Episode.Labels))
}

// Severity is that of a failure which is not certain: at most a warning, and no more than information
// if it is over or weak.
func (f *Finding) Severity() string {
	s := f.Episode.Labels["severity"]
	switch {
	case s == string(rules.SeverityNone):
	case f.Doubt == Recovered || f.Weak:
		return string(rules.SeverityInfo)
	case s == string(rules.SeverityCritical):
		return string(rules.SeverityWarning)
	}
	return s
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
