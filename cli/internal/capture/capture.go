// Package capture turns an episode into an inline test of its rule. The test contains the lines
// with their streams and distances in time, and the alerts that the rule must raise. The
// package does not use files or the network.
package capture

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/rules/selector"
)

// Episode contains the lines of an episode that its rule matched. The lines must be redacted.
type Episode struct {
	Alert string
	// Labels are the labels of the alert.
	Labels map[string]string
	// Fired reports whether the alert fired. If it is false, the episode ended before the alert could fire.
	Fired bool
	// Reason is the reason why the episode ended; "" if it is open.
	Reason episodes.Reason
	Began  time.Time
	Lines  []Line // lines ordered by time
	// Notes contains sentences for people about differences between Lines and the original lines.
	Notes []string
}

// Line is one matched line.
type Line struct {
	Time   time.Time
	Text   redact.Text
	Labels map[string]string
}

// Test is a captured test.
type Test struct {
	rules.Test
	// Fires reports whether the rule now fires on the lines.
	Fires bool
	// Trigger is the line that opened the alert, with the labels of its stream.
	Trigger Line
	Notes   []string
}

// enough is the maximum number of lines of a test that is not shortened.
const enough = 12

// Make returns the test of an episode. With falsePage, the test expects that the rule does not fire. Otherwise the test
// expects the alerts of the episode. If the lines do not make the rule fire as in the episode, Make returns an error
// that says what is missing.
func Make(r *rules.Rule, ep Episode, falsePage bool) (Test, error) {
	if len(ep.Lines) == 0 {
		return Test{}, errors.New("no line of the episode is known; capture the alert from logs with --from-logs")
	}
	m := &maker{rule: r, ep: ep, notes: slices.Clone(ep.Notes)}
	m.completeLabels()
	lines, unit := m.ep.Lines, time.Second
	o, err := m.runRule(lines, unit)
	if err == nil && o.fired != ep.Fired {
		unit = time.Millisecond
		o, err = m.runRule(lines, unit)
	}
	if err != nil {
		return Test{}, err
	}
	if ep.Fired && !o.fired && !falsePage {
		return Test{}, fmt.Errorf("rule %s does not fire on the %d known lines of the episode: lines between them are missing, or the rule has changed; capture the alert from logs with --from-logs", r.Alert, len(lines))
	}
	if o.fired && (len(lines) > enough || o.others) {
		lines = m.dropNeedless(lines, unit, o.others)
		if o, err = m.runRule(lines, unit); err != nil {
			return Test{}, err
		}
	}
	t := m.newTest(lines, unit)
	t.Name = m.testName(falsePage)
	t.Expect = m.expectations(t, o, falsePage)
	return Test{Test: t, Fires: o.fired, Trigger: m.triggerLine(lines), Notes: m.notes}, nil
}

type maker struct {
	rule  *rules.Rule
	ep    Episode
	notes []string
}

// keptLabels are the stream labels that every test contains, in addition to the labels that the rule uses.
var keptLabels = []string{"namespace", "pod", "container", "node", "cluster", "unit", "identifier", "transport", "component", "app"}

// completeLabels removes the labels that no rule can use, and adds the labels that the rule needs but the input does
// not contain.
func (m *maker) completeLabels() {
	keep := slices.Concat(keptLabels, m.rule.By)
	for s := range m.rule.Selectors() {
		for _, c := range s.Matchers() {
			keep = append(keep, c.Name)
		}
	}
	added := map[string]bool{}
	m.ep.Lines = slices.Clone(m.ep.Lines)
	for i := range m.ep.Lines {
		l := &m.ep.Lines[i]
		l.Text = l.Text.Map(safeText)
		labels := map[string]string{}
		for _, name := range keep {
			if v := l.Labels[name]; v != "" {
				labels[name] = safeText(v)
			}
		}
		for _, c := range m.rule.From.Matchers() {
			if labels[c.Name] != "" || c.Matches("") {
				continue
			}
			if v, ok := conditionValue(c); ok {
				labels[c.Name], added[c.Name+"="+v] = v, true
			}
		}
		l.Labels = labels
	}
	if len(added) > 0 {
		m.notes = append(m.notes, "the input does not state these labels; the test assumes them: "+strings.Join(slices.Sorted(maps.Keys(added)), ", "))
	}
}

// safeText returns s in a form that can be written into a test. The result is valid UTF-8, and does not contain the
// template that tests replace by a number.
func safeText(s string) string {
	return strings.ReplaceAll(redact.Sanitise(strings.ToValidUTF8(s, "?")), "{{", "{ {")
}

func conditionValue(c selector.Matcher) (string, bool) {
	for v := range strings.SplitSeq(strings.Trim(c.Value, "()"), "|") {
		if v = strings.NewReplacer(".*", "x", ".+", "x", `\`, "").Replace(v); v != "" && c.Matches(v) {
			return v, true
		}
	}
	return "", false
}

type outcome struct {
	fired     bool
	at        time.Duration // time from the first line until the rule fires
	endsAfter time.Duration // time from the first line until the alert ends; zero if the alert does not end
	reason    episodes.Reason
	labels    map[string]string
	others    bool // whether the rule also fires for other keys
}

func (m *maker) runRule(lines []Line, unit time.Duration) (o outcome, err error) {
	t := m.newTest(lines, unit)
	r := m.rule
	until := lastTime(t) + r.For + r.Silent + 2*r.KeepFiringFor + 2*rules.Lateness + time.Minute
	all, err := replay.Trace(r, t, until)
	if err != nil {
		return o, err
	}
	for _, tr := range all {
		own := m.isOwnAlert(tr.Episode)
		switch {
		case tr.Episode.State == episodes.StateFiring && !own:
			o.others = true
		case tr.Episode.State == episodes.StateFiring && !o.fired:
			o.fired, o.at, o.labels = true, tr.Offset, tr.Episode.Labels
		case tr.Episode.State == episodes.StateResolved && own && o.fired && o.endsAfter == 0:
			o.endsAfter, o.reason = tr.Offset, tr.Episode.Reason
		}
	}
	return o, nil
}

// isOwnAlert reports whether an alert in the test is the captured alert. It compares only labels that both alerts have.
func (m *maker) isOwnAlert(e episodes.Episode) bool {
	for _, name := range m.rule.By {
		if a, b := safeText(m.ep.Labels[name]), safeText(e.Labels[name]); a != "" && b != "" && a != b {
			return false
		}
	}
	return !e.Overflow
}

// maxRuns is the maximum number of times that the rule is run to find lines without effect.
const maxRuns = 300

// dropNeedless removes lines whose removal does not change when the alert fires and ends. others says whether alerts
// with other keys may also fire.
func (m *maker) dropNeedless(lines []Line, unit time.Duration, others bool) []Line {
	runs := 0
	same := func(l []Line) bool {
		if runs++; len(l) == 0 || runs > maxRuns {
			return false
		}
		o, err := m.runRule(l, unit)
		return err == nil && o.fired && (others || !o.others) && (m.ep.Reason != episodes.ReasonClear || o.reason == episodes.ReasonClear)
	}
	for size := (len(lines) + 1) / 2; size > 0; size /= 2 {
		for at := 0; at < len(lines); {
			without := slices.Concat(lines[:at], lines[min(at+size, len(lines)):])
			if same(without) {
				lines = without
			} else {
				at += size
			}
		}
	}
	return lines
}

func (m *maker) triggerLine(lines []Line) Line {
	matches := func(p matcher.PartExplanation) bool { return p.Part >= 0 && p.Matches() }
	for _, l := range slices.Backward(lines) {
		if slices.ContainsFunc(matcher.Explain(m.rule, l.Labels, []byte(l.Text)).Parts, matches) {
			return l
		}
	}
	return lines[0]
}

func (m *maker) testName(falsePage bool) string {
	what := "captured"
	switch {
	case falsePage:
		what = "false page"
	case !m.ep.Fired:
		what = "over in time, captured"
	}
	base := what + " " + m.ep.Began.UTC().Format("2006-01-02 15:04")
	name := base
	for n := 2; slices.ContainsFunc(m.rule.Tests, func(t rules.Test) bool { return t.Name == name }); n++ {
		name = fmt.Sprintf("%s, %d", base, n)
	}
	return name
}

// newTest returns a test with the lines as inputs. Times are rounded to unit.
func (m *maker) newTest(lines []Line, unit time.Duration) rules.Test {
	t := rules.Test{Stream: maps.Clone(lines[0].Labels)}
	for _, l := range lines[1:] {
		maps.DeleteFunc(t.Stream, func(name, v string) bool { return l.Labels[name] != v })
	}
	for _, l := range lines {
		in := rules.Input{At: l.Time.Sub(lines[0].Time).Round(unit), Text: string(l.Text), Repeat: 1}
		in.Labels = maps.Clone(l.Labels)
		maps.DeleteFunc(in.Labels, func(name, v string) bool { return t.Stream[name] == v })
		if n := len(t.Input); n > 0 && mergeRepeat(&t.Input[n-1], &in) {
			continue
		}
		t.Input = append(t.Input, in)
	}
	return t
}

// mergeRepeat merges the input in into the previous input p if both have the same line and the time between repetitions
// stays equal. It reports whether it merged them.
func mergeRepeat(p, in *rules.Input) bool {
	if p.Text != in.Text || !maps.Equal(p.Labels, in.Labels) {
		return false
	}
	every := in.At - p.At - time.Duration(p.Repeat-1)*p.Every
	if every <= 0 || p.Repeat > 1 && every != p.Every {
		return false
	}
	p.Repeat, p.Every = p.Repeat+1, every
	return true
}

func lastTime(t rules.Test) time.Duration {
	end := time.Duration(0)
	for _, in := range t.Input {
		end = max(end, in.At+time.Duration(in.Repeat-1)*in.Every)
	}
	return end
}

func (m *maker) expectations(t rules.Test, o outcome, falsePage bool) []rules.Checkpoint {
	r := m.rule
	none := func(t time.Duration) rules.Checkpoint {
		return rules.Checkpoint{At: t, None: true, HasFiring: true}
	}
	end := lastTime(t) + r.For + r.Silent + time.Minute
	if !o.fired || falsePage {
		if at := roundUp(o.at + time.Second); o.fired && at < end {
			return []rules.Checkpoint{none(at), none(end)}
		}
		return []rules.Checkpoint{none(end)}
	}
	alert := map[string]string{"alertname": r.Alert}
	for _, name := range r.By {
		if v := o.labels[name]; v != "" {
			alert[name] = v
		}
	}
	var out []rules.Checkpoint
	if before := (o.at - time.Second).Truncate(time.Second); (r.For+r.Silent > 0 || r.Count > 1) && before > 0 {
		out = append(out, none(before))
	}
	at := roundUp(o.at + time.Second)
	if o.endsAfter > 0 && at >= o.endsAfter {
		at = o.at
	}
	if at < o.endsAfter || o.endsAfter == 0 {
		out = append(out, rules.Checkpoint{At: at, HasFiring: true, Firing: []rules.ExpectedAlert{{Labels: alert}}})
	}
	if o.endsAfter > 0 && o.reason == m.ep.Reason {
		after := none(roundUp(o.endsAfter + time.Second))
		if at >= o.endsAfter {
			after.Resolved = []rules.ExpectedAlert{{Labels: alert}}
		}
		out = append(out, after)
	}
	return out
}

func roundUp(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }

func byTime(a, b Line) int { return cmp.Compare(a.Time.UnixNano(), b.Time.UnixNano()) }

// YAML returns the lines of the test as an item of a YAML list, without indentation.
func (t *Test) YAML() []string {
	out := []string{"- name: " + plainYAML(t.Name), "  stream: " + labelsYAML(t.Stream), "  input:"}
	for _, in := range t.Input {
		text := fmt.Sprintf("  - {at: %s, line: %s", offsetText(in.At), strconv.Quote(in.Text))
		if in.Repeat > 1 {
			text += fmt.Sprintf(", repeat: %d, every: %s", in.Repeat, offsetText(in.Every))
		}
		if len(in.Labels) > 0 {
			text += ", labels: " + labelsYAML(in.Labels)
		}
		out = append(out, text+"}")
	}
	out = append(out, "  expect:")
	for _, c := range t.Expect {
		out = append(out, "  - "+checkpointYAML(c))
	}
	return out
}

func checkpointYAML(c rules.Checkpoint) string {
	text := "{at: " + offsetText(c.At)
	if c.None {
		text += ", firing: none"
	} else {
		text += ", firing: " + alertsYAML(c.Firing)
	}
	if len(c.Resolved) > 0 {
		text += ", resolved: " + alertsYAML(c.Resolved)
	}
	return text + "}"
}

func alertsYAML(all []rules.ExpectedAlert) string {
	out := make([]string, len(all))
	for i, a := range all {
		out[i] = labelsYAML(a.Labels)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

func offsetText(d time.Duration) string { return model.Duration(d).String() }

func labelsYAML(values map[string]string) string {
	var out []string
	for _, name := range slices.SortedFunc(maps.Keys(values), byImportance) {
		out = append(out, name+": "+plainYAML(values[name]))
	}
	return "{" + strings.Join(out, ", ") + "}"
}

// byImportance compares names of labels. Names that state where a failure is come first.
func byImportance(a, b string) int {
	rank := func(name string) int {
		if k := slices.Index([]string{"alertname", "namespace", "pod", "container"}, name); k >= 0 {
			return k
		}
		return 9
	}
	return cmp.Or(rank(a)-rank(b), strings.Compare(a, b))
}

// plainYAML returns s unquoted if every YAML parser reads the result as the string s, and quoted otherwise.
func plainYAML(s string) string {
	if s == "" || strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./") != "" || !isPlainLetter(s[0]) ||
		slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(s)) {
		return strconv.Quote(s)
	}
	return s
}

func isPlainLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
