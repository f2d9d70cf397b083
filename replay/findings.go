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

// Doubt states why a failure that a rule describes did not become an alert.
type Doubt string

// The values of Doubt.
const (
	// TooShort means that the log covers less time than the rule requires.
	TooShort Doubt = "too_short"
	// TooFew means that the rule requires more lines than the log has.
	TooFew Doubt = "too_few"
	// Waiting means that the rule requires another line, or proof that there is no such line.
	Waiting Doubt = "waiting"
	// Elsewhere means that a line of another file ended the failure, provided that both files are from the same place.
	Elsewhere Doubt = "elsewhere"
	// Recovered means that a line ended the failure before it became an alert.
	Recovered Doubt = "recovered"
	// Untrusted means that the rule does not trust the namespace of the lines.
	Untrusted Doubt = "untrusted"
)

// Finding is a failure that lines show and a rule describes, but that did not become an alert.
type Finding struct {
	// Episode is the alert that would fire. Its count and times cover all matching lines of its key. It has an end if
	// the failure is over.
	Episode episodes.Episode
	Doubt   Doubt
	// Missing is a clause that names the conditions of the alert that the log does not meet.
	Missing string
	// Matched are the sections of the newest line that texts and expressions of the rule match.
	Matched []string
	// OtherRules are the names of other rules about the same failure. These are more general rules that match all of its
	// lines, and rules of severity info about the same object.
	OtherRules []string
	// OtherFailures are further failures with the same rule and doubt.
	OtherFailures []episodes.Episode
	// Weak reports whether the log has far fewer lines than the rule requires.
	Weak bool
	// Decided reports whether the log continues after the newest line for long enough to show that the failure did not
	// become an alert.
	Decided bool
}

// Coverage is the time from the first to the last line of a log.
type Coverage struct {
	From, To time.Time // times of the first and the last line; zero if no line states a time
}

// Length returns the length of the covered time, or zero if it is not known.
func (c Coverage) Length() time.Duration {
	if c.From.IsZero() {
		return 0
	}
	return c.To.Sub(c.From)
}

// String returns a clause such as "the log covers 7 seconds".
func (c Coverage) String() string {
	if c.From.IsZero() {
		return "the log states no time"
	}
	return "the log covers " + durationText(c.Length())
}

// excerptShare determines which logs count as excerpts. In an excerpt, at least one line in excerptShare belongs to the
// failure, because people cut excerpts out of a log around a failure.
const excerptShare = 10

// excerptLength is the maximum duration of an excerpt. A longer log does not count as an excerpt.
const excerptLength = 10 * time.Minute

// evidenceShare determines which failures are weak. A failure is weak if the rule requires evidenceShare times as many
// lines. For example, one conflict does not show a storm of conflicts.
const evidenceShare = 10

// earliestEnd returns the earliest end of the inputs that have lines of the rule, and the total number of lines of
// these inputs. Both are zero if one of the inputs has no known end.
func (s *shownRule) earliestEnd(outcomes []Outcome) (end time.Time, lines int64) {
	for _, input := range s.inputs {
		if input >= len(outcomes) || outcomes[input].Until.IsZero() {
			return time.Time{}, 0
		}
		lines += outcomes[input].Lines
		if t := outcomes[input].Until; end.IsZero() || t.Before(end) {
			end = t
		}
	}
	return end, lines
}

// listFindings returns the failures that no alert reports, the most likely first. If the inputs continue for long
// enough to show that a failure did not become an alert, the failure is listed only for excerpts. If all lines of a
// general rule belong to an alert, the rule is added to that alert's OtherRules. few are the weak failures if there is
// also an alert or another finding.
func (f *finder) listFindings(c Coverage, outcomes []Outcome, alerts []Alert) (shown, few []Finding) {
	var all []Finding
	for _, x := range f.doubted {
		all = append(all, f.judgeFailure(x, c, time.Time{}))
	}
	for _, x := range f.openFailures() {
		if r := x.Rule; (r.Sequence || r.Clear != nil) && !hasComplaint(&x) {
			continue // a healthy program may also log this line
		}
		end, lines := f.rules[x.Rule].earliestEnd(outcomes)
		switch x := f.judgeFailure(x, c, end); {
		case x.Weak && !(hasComplaint(&x.Episode) && (!x.Decided || c.Length() < excerptLength)):
		case !x.Decided || x.Doubt == Recovered || x.Weak || x.Episode.Count*excerptShare >= lines:
			all = append(all, x)
		}
	}
	all = f.foldFindings(all, alerts)
	slices.SortFunc(all, byWeight)
	for _, x := range joinFindings(all) {
		by := slices.IndexFunc(shown, func(o Finding) bool { return overshadows(&o, &x) })
		switch {
		case by >= 0:
			shown[by].OtherRules = append(slices.Clip(shown[by].OtherRules), x.Episode.Alert)
		case x.Weak && len(shown)+len(alerts) > 0:
			few = append(few, x)
		default:
			shown = append(shown, x)
		}
	}
	return shown, few
}

// hasComplaint reports whether a line of an episode looks like the report of a problem.
func hasComplaint(x *episodes.Episode) bool {
	return matcher.IsComplaint(string(x.Line)) || matcher.IsComplaint(string(x.FirstLine))
}

// judgeFailure determines why a failure did not become an alert. end is the time until which all inputs with lines of
// the failure continue, or zero if that time is not known.
func (f *finder) judgeFailure(x episodes.Episode, c Coverage, end time.Time) Finding {
	r := x.Rule
	x.FiredAt = time.Time{} // the variant of the rule fired at the first line, but the original rule did not
	if x.State == episodes.StateFiring {
		x.State = episodes.StatePending
	}
	out := Finding{Episode: x, Matched: matchedTexts(r, string(x.Line)), Weak: x.Count*evidenceShare < int64(r.Count)}
	if f.timeless.isUndated(&x) {
		c, end = Coverage{}, time.Time{}
	}
	out.Decided = !end.IsZero() && end.Sub(x.LastSeen) > max(r.For, r.Within)
	seen := text.Plural(x.Count, "line") + " seen"
	recovery, elsewhere := f.elsewhere(&x)
	switch {
	case x.State == episodes.StateResolved:
		out.Doubt, out.Missing, out.Decided = Recovered, "recovered", true
		if !f.timeless.isUndated(&x) {
			out.Missing += " after " + durationText(x.EndsAt.Sub(x.StartsAt))
		}
	case elsewhere:
		out.Doubt, out.Decided = Elsewhere, false
		out.Missing = "perhaps over: a line of " + recovery.String() + " ends it, unless that log is of another place"
	case r.Sequence:
		out.Doubt, out.Missing = Waiting, missingSteps(r, f.rules[r].steps)
		if f.timeless.isUndated(&x) {
			out.Missing += "; " + c.String()
		}
	case r.Count > 1:
		out.Doubt, out.Missing = TooFew, fmt.Sprintf("alerts %s; %s", amountText(r), seen)
		if c.Length() < r.Within {
			out.Doubt, out.Missing = TooShort, out.Missing+", and "+c.String()
		}
	case r.Clear != nil && f.session.reads != nil && !f.session.reads(r.Clear.From):
		out.Doubt = Waiting
		out.Missing = fmt.Sprintf("alerts if no recovery follows within %s, but the recovery would be in other logs: %s", durationText(r.For), r.Clear.From)
	case r.For > 0 && c.Length() < r.For:
		out.Doubt, out.Missing = TooShort, fmt.Sprintf("alerts if the failure lasts %s; %s", durationText(r.For), c.String())
	case r.For > 0:
		out.Doubt, out.Missing = TooFew, fmt.Sprintf("alerts if the failure lasts %s; %s over %s", durationText(r.For), seen, durationText(x.LastSeen.Sub(x.StartsAt)))
	default:
		out.Doubt, out.Missing = Waiting, "alerts if no other line mutes it, which these logs cannot show"
	}
	return out
}

// amountText describes what a rule counts, such as lines.
func amountText(r *rules.Rule) string {
	switch {
	case r.DistinctTime() > 0:
		return fmt.Sprintf("if it repeats in %d different %ss within %s", r.Count, r.Distinct, durationText(r.Within))
	case r.Distinct != "":
		return fmt.Sprintf("at %d different values of %s within %s", r.Count, r.Distinct, durationText(r.Within))
	}
	return fmt.Sprintf("at %d lines within %s", r.Count, durationText(r.Within))
}

// durationText formats a duration with its two largest units, such as "1 hour 30 minutes".
func durationText(d time.Duration) string {
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

// missingSteps lists the steps of a sequence that are not in seen, which is a bit set of steps.
func missingSteps(r *rules.Rule, seen uint64) string {
	var missing []string
	for i := range r.Steps {
		if seen&(1<<min(i, maxSteps-1)) == 0 {
			missing = append(missing, fmt.Sprintf("line %d of %d: %s", i+1, len(r.Steps), summarizeTexts(&r.Steps[i].Matcher)))
		}
	}
	switch {
	case len(missing) > 0:
		return fmt.Sprintf("alerts if this follows within %s: %s", durationText(r.Within), strings.Join(missing, " and "))
	case r.For > 0:
		return fmt.Sprintf("alerts if its %d lines come in order within %s, and it lasts %s", len(r.Steps), durationText(r.Within), durationText(r.For))
	}
	return fmt.Sprintf("alerts if its %d lines come in order, for one failure, within %s", len(r.Steps), durationText(r.Within))
}

func summarizeTexts(m *rules.Matcher) string {
	if texts := matcherTexts(m); len(texts) > 0 {
		return "`" + strings.Join(texts, "`, `") + "`"
	}
	return "a match of an expression"
}

func matcherTexts(m *rules.Matcher) []string {
	if len(m.Contains) > 0 {
		return m.Contains
	}
	for i := range m.Any {
		if texts := matcherTexts(&m.Any[i]); len(texts) > 0 {
			return texts
		}
	}
	if m.Regex != nil {
		return []string{m.Regex.String()}
	}
	return nil
}

// matchedTexts returns the sections of line that texts and expressions of the rule's steps match.
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

// foldFindings removes a finding if all its lines belong to a finding or alert of a better rule, and adds the name of
// its rule to the OtherRules there. A better rule is more specific, or has had enough lines.
func (f *finder) foldFindings(all []Finding, alerts []Alert) []Finding {
	weak := map[*rules.Rule]bool{} // whether all findings of a rule are weak
	for i := range all {
		w, known := weak[all[i].Episode.Rule]
		weak[all[i].Episode.Rule] = all[i].Weak && (w || !known)
	}
	better := map[*rules.Rule]*rules.Rule{}
	also := map[*rules.Rule][]string{}
	for r, w := range weak {
		s := f.rules[r]
		for o, n := range s.sharedLines {
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
		all[i].OtherRules = also[all[i].Episode.Rule]
	}
	for i := range alerts {
		alerts[i].OtherRules = also[alerts[i].Episode.Rule]
	}
	return all
}

// overshadows reports whether b has severity info and a is about the same object with a higher severity.
func overshadows(a, b *Finding) bool {
	y := &b.Episode
	if findingRank(*a) >= findingRank(*b) || rules.Severity(y.Labels["severity"]) != rules.SeverityInfo || !hasComplaint(&a.Episode) || len(b.OtherFailures) > 0 || len(y.Rule.By) == 0 {
		return false
	}
	same := func(x episodes.Episode) bool {
		return !slices.ContainsFunc(y.Rule.By, func(name string) bool { return y.Labels[name] == "" || y.Labels[name] != x.Labels[name] })
	}
	return same(a.Episode) || slices.ContainsFunc(a.OtherFailures, same)
}

// joinFindings merges findings with the same rule and doubt into one. It keeps the order.
func joinFindings(all []Finding) (out []Finding) {
	type kind struct {
		rule  *rules.Rule
		doubt Doubt
	}
	at := map[kind]int{}
	for _, x := range all {
		k := kind{x.Episode.Rule, x.Doubt}
		if i, ok := at[k]; ok {
			out[i].OtherFailures = append(out[i].OtherFailures, x.Episode)
			continue
		}
		at[k] = len(out)
		out = append(out, x)
	}
	return out
}

// moreSpecial reports whether b reads the logs of every program and a does not.
func moreSpecial(a, b *rules.Rule) bool { return isGeneral(b) && !isGeneral(a) }

func isGeneral(r *rules.Rule) bool {
	return r.From.Matches(map[string]string{"container": "\x00", "namespace": "\x00", "pod": "\x00"}, false)
}

// byWeight compares findings by importance. Findings that may still become an alert come first, then findings of
// specific rules, then severe findings, then findings with many lines.
func byWeight(a, b Finding) int {
	if c := cmp.Or(
		slices.Compare(a.weaknesses(), b.weaknesses()),
		cmp.Compare(findingRank(a), findingRank(b)),
		cmp.Compare(b.Episode.Count, a.Episode.Count),
		a.Episode.StartsAt.Compare(b.Episode.StartsAt),
		cmp.Compare(a.Episode.Alert, b.Episode.Alert),
	); c != 0 {
		return c
	}
	return cmp.Compare(text.FormatLabels(a.Episode.Labels), text.FormatLabels(b.Episode.Labels))
}

// Severity returns the severity of a failure that is not certain. It is at most warning, and at
// most info if the failure is over or weak.
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

func findingRank(f Finding) int {
	return slices.Index([]string{"critical", "warning", "info", "none"}, f.Episode.Labels["severity"])
}

// weaknesses returns the properties that make a finding less likely to become an alert, as 0 or 1, the most important
// property first.
func (f *Finding) weaknesses() []int {
	out := make([]int, 5)
	for i, has := range []bool{f.Weak, f.Doubt == Recovered, f.Doubt == Untrusted, f.Decided, isGeneral(f.Episode.Rule)} {
		if has {
			out[i] = 1
		}
	}
	return out
}
