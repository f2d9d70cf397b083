package episodes

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// report is one notification that a receiver gets.
type report struct {
	key    string
	state  State
	reason Reason
	starts time.Duration
	ends   time.Duration
}

// lifeModel implements the language for one key whose lines arrive in order of time. It
// recounts at each line and keeps everything.
type lifeModel struct {
	r     *rules.Rule
	key   string
	lines []event         // that may count
	mutes []time.Duration // all of them
	clear time.Duration   // the newest one

	state         State // "" if there is no episode
	starts, moved time.Duration
	reported      []report
}

const never = time.Duration(math.MinInt64)

func (m *lifeModel) quiet() time.Duration {
	if m.r.Clear != nil {
		return m.r.Expire
	}
	return m.r.KeepFiringFor
}

func (m *lifeModel) report(state State, reason Reason, ends time.Duration) {
	m.reported = append(m.reported, report{m.key, state, reason, m.starts, ends})
}

// until draws every conclusion that is due at watermark w.
func (m *lifeModel) until(w time.Duration) {
	fires, ends := m.starts+m.r.For, m.moved+m.quiet()
	if m.state == StatePending && fires < ends && fires <= w {
		m.fire()
	}
	if m.state == "" || ends > w {
		return
	}
	reason := ReasonQuiet
	if m.r.Clear != nil {
		reason = ReasonExpired
	}
	m.end(reason, ends)
}

func (m *lifeModel) fire() {
	m.state = StateFiring
	m.report(StateFiring, "", 0)
}

func (m *lifeModel) end(reason Reason, at time.Duration) {
	if m.state == StateFiring {
		m.report(StateResolved, reason, at)
	}
	m.state = ""
}

// line takes one line of the key.
func (m *lifeModel) line(ev event, w time.Duration) {
	t := time.Duration(ev.t) * time.Second
	switch ev.part {
	case matcher.PartClear:
		m.clear = t
		if m.state == StatePending && t > m.starts+m.r.For {
			m.fire() // the condition held for the whole of `for`
		}
		if m.state != "" {
			m.end(ReasonClear, t)
		}
		return
	case matcher.PartUnless:
		m.mutes = append(m.mutes, t)
		if m.state == StatePending && t > m.starts-m.r.Unless.Within {
			m.state = ""
		}
		return
	}
	if m.r.Distinct != "" && ev.v == "" {
		return
	}
	if m.r.Clear != nil && t <= m.clear {
		return
	}
	m.lines = append(m.lines, ev)
	if !m.enough(t) {
		return
	}
	if m.state != "" {
		if m.state == StatePending && t-m.moved > m.quiet() {
			m.starts = t
		}
		m.moved = t
		return
	}
	if t+m.quiet() <= w || m.muted(t) {
		return
	}
	m.state, m.starts, m.moved = StatePending, t, t
	if m.r.For == 0 && m.r.Unless == nil {
		m.fire()
	}
}

// enough reports whether the condition holds with the lines of the window that
// ends at t.
func (m *lifeModel) enough(t time.Duration) bool {
	if m.r.Within == 0 {
		return true
	}
	n := 0
	values := map[string]bool{}
	for _, ev := range m.lines {
		at := time.Duration(ev.t) * time.Second
		if at > t-m.r.Within && at > m.clear {
			n++
			values[ev.v] = true
		}
	}
	if m.r.Distinct != "" {
		n = len(values)
	}
	return n >= m.r.Count
}

func (m *lifeModel) muted(t time.Duration) bool {
	return slices.ContainsFunc(m.mutes, func(at time.Duration) bool { return at > t-m.r.Unless.Within })
}

// TestLifecycleModel compares the reports for a history in order of time, and
// when an episode begins and ends, with the model.
func TestLifecycleModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRule(t)
		if r.Sequence {
			r.Sequence, r.Steps, r.Within = false, r.Steps[:1], 0
		}
		if r.Silent > 0 { // TestSilentModel
			r.Silent, r.KeepFiringFor = 0, 10*time.Second
		}
		r.Limit = 100
		events := logHistory(t, rapid.SampledFrom([]int{20, 60, 200}).Draw(t, "seconds"), partsOf(r)...)
		// An unless line of the time of a clear line counts, whichever is read first
		// (TestUnlessOfTheTimeOfAClear); the model knows one order only.
		late := func(ev event) int {
			if ev.part == matcher.PartUnless {
				return 0
			}
			return 1
		}
		slices.SortStableFunc(events, func(a, b event) int { return cmp.Or(cmp.Compare(a.t, b.t), late(a)-late(b)) })
		restart := rapid.IntRange(0, 2*len(events)).Draw(t, "restart")

		b := &bench{t: t, set: &rules.Set{Rules: []*rules.Rule{r}}}
		b.e = b.engine(Config{})
		models := map[string]*lifeModel{}
		for _, k := range []string{"a", "b"} {
			models[k] = &lifeModel{r: r, key: k, clear: never}
		}
		advance := func(d time.Duration) {
			b.advance(d)
			for _, m := range models {
				m.until(d - rules.Lateness)
			}
		}
		for i, ev := range events {
			now := time.Duration(ev.t) * time.Second
			advance(now - 1)
			if i == restart {
				b.restart(now - 1)
				advance(now - 1)
			}
			b.take(now, ev.hit(r))
			b.reported = append(b.reported, b.e.Evaluate(at(now))...)
			models[ev.k].line(ev, now-1-rules.Lateness)
		}
		advance(10 * time.Minute)
		for k, m := range models {
			require.Equal(t, m.reported, reportsOf(b.reported, k), "the model expects these reports for key %s; %s;%s", k, describe(r), listed(events))
			require.Empty(t, string(m.state))
		}
	})
}

// TestUnlessOfTheTimeOfAClear reads an unless line and a clear line of one time in
// both orders: the episode was never true for its time without being muted.
func TestUnlessOfTheTimeOfAClear(t *testing.T) {
	for _, parts := range [][2]matcher.Part{{matcher.PartUnless, matcher.PartClear}, {matcher.PartClear, matcher.PartUnless}} {
		r := rule(func(r *rules.Rule) {
			r.For, r.Clear, r.Unless = time.Second, &rules.ClearOrUnless{}, &rules.ClearOrUnless{Within: time.Second}
		})
		b := newBench(t, r)
		b.take(0, lineHit(r, 0, 0, "failure"))
		b.take(7*time.Second, lineHit(r, parts[0], 7*time.Second, "first"))
		b.take(7*time.Second, lineHit(r, parts[1], 7*time.Second, "second"))
		b.advance(time.Hour)
		require.Empty(t, reportsOf(b.reported, ""), "%v", parts)
	}
}

// reportsOf returns the reports of one key, without repeats.
func reportsOf(all []Episode, k string) []report { return reportsBy(all, "k", k) }

// reportsBy returns the reports of the alerts whose label has the value k.
func reportsBy(all []Episode, label, k string) []report {
	var out []report
	for _, x := range all {
		if x.Labels[label] != k || x.State != StateFiring && x.State != StateResolved {
			continue
		}
		reported := report{k, x.State, x.Reason, x.StartsAt.Sub(at(0)), 0}
		if x.State == StateResolved {
			reported.ends = x.EndsAt.Sub(at(0))
		}
		if !slices.Contains(out, reported) {
			out = append(out, reported)
		}
	}
	return out
}

func describe(r *rules.Rule) string {
	return fmt.Sprintf("count %d within %s distinct %q silent %s for %s clear %t expire %s keep %s unless %+v", r.Count, r.Within, r.Distinct, r.Silent, r.For, r.Clear != nil, r.Expire, r.KeepFiringFor, r.Unless)
}
