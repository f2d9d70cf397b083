package episodes

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/rules/template"
)

// pair returns a rule for a cause and one for its symptom, with the key k.
func pair(change func(cause, symptom *rules.Rule)) (cause, symptom *rules.Rule) {
	cause = rule(func(r *rules.Rule) {
		r.Alert, r.By, r.Severity, r.Infrastructure, r.Hash = "Cause", []string{"k"}, rules.SeverityCritical, true, "c"
		r.Clear = &rules.ClearOrUnless{Same: []string{"k"}}
		t, _ := template.Parse("{{ $labels.k }} is slow")
		r.Annotations = []rules.NamedTemplate{{Name: "summary", Template: t}}
	})
	symptom = rule(func(r *rules.Rule) {
		r.Alert, r.By, r.Hash = "Symptom", []string{"k", "pod"}, "s"
		r.Clear = &rules.ClearOrUnless{Same: []string{"k", "pod"}}
		r.Causes = []rules.Cause{{Alert: "Cause"}}
	})
	if change != nil {
		change(cause, symptom)
	}
	return cause, symptom
}

// labelled returns a line of a stream with labels.
func labelled(r *rules.Rule, part matcher.Part, t time.Duration, labels matcher.Labels, values ...string) matcher.Hit {
	h := lineHit(r, part, t, r.Alert+fmt.Sprint(labels, part), values...)
	h.Labels = labels
	return h
}

// newest returns the newest report of the rule's alert.
func (b *bench) newest(alert string) Episode {
	for _, x := range slices.Backward(b.reported) {
		if x.Alert == alert {
			return x
		}
	}
	require.Fail(b.t, "not reported", alert)
	return Episode{}
}

func TestSymptomNamesItsCause(t *testing.T) {
	cause, symptom := pair(nil)
	b := newBench(t, symptom, cause)
	b.take(time.Second, lineHit(cause, 0, time.Second, "slow", "a"))
	b.advance(2 * time.Second)
	b.take(3*time.Second, lineHit(symptom, 0, 3*time.Second, "lost", "a", "p"))
	b.advance(4 * time.Second)
	x, of := b.newest("Symptom"), b.newest("Cause")
	require.NotNil(t, x.Cause)
	require.Equal(t, Cause{Fingerprint: of.Fingerprint, Alert: "Cause", Severity: "critical", Labels: of.Labels, Summary: "a is slow", StartsAt: at(time.Second)}, *x.Cause)
	require.Equal(t, "Cause", x.Annotations["cause_alertname"])
	require.Equal(t, of.Fingerprint.String(), x.Annotations["cause_fingerprint"])
	require.Equal(t, "a is slow", x.Annotations["cause_summary"])
	require.True(t, x.Inhibit)
	require.Nil(t, of.Cause)

	tl, ok := b.e.Timeline(x.Fingerprint, at(4*time.Second))
	require.True(t, ok)
	require.Equal(t, x.Cause, tl.Episode.Cause)

	// The cause ends: the symptom goes on without one.
	b.take(5*time.Second, lineHit(cause, matcher.PartClear, 5*time.Second, "fine", "a"))
	b.advance(6 * time.Second)
	y := b.newest("Symptom")
	require.Nil(t, y.Cause)
	require.False(t, y.Inhibit)
	require.NotContains(t, y.Annotations, "cause_alertname")
	require.Equal(t, x.Labels, y.Labels)
	require.Equal(t, x.Fingerprint, y.Fingerprint)
	require.Equal(t, x.StartsAt, y.StartsAt)

	// When it ends, its cause is part of what happened.
	b.take(7*time.Second, lineHit(symptom, matcher.PartClear, 7*time.Second, "fine", "a", "p"))
	b.advance(8 * time.Second)
	z := b.newest("Symptom")
	require.Equal(t, StateResolved, z.State)
	require.Equal(t, of.Fingerprint, z.Cause.Fingerprint)
	require.False(t, z.Inhibit)
}

// A rule's own annotations have precedence over those of the relation.
func TestRuleStatesAnnotationOfTheRelation(t *testing.T) {
	cause, symptom := pair(func(_, symptom *rules.Rule) {
		text, err := template.Parse("mine")
		require.NoError(t, err)
		symptom.Annotations = []rules.NamedTemplate{{Name: "cause_summary", Template: text}}
	})
	b := newBench(t, symptom, cause)
	b.take(time.Second, lineHit(cause, 0, time.Second, "slow", "a"), lineHit(symptom, 0, 2*time.Second, "lost", "a", "p"))
	b.advance(4 * time.Second)
	require.Equal(t, "mine", b.newest("Symptom").Annotations["cause_summary"])
	require.Equal(t, "a is slow", b.newest("Symptom").Cause.Summary)
}

func TestWhoIsACause(t *testing.T) {
	type lines struct {
		cause, symptom time.Duration
		causeLabels    matcher.Labels
		symptomLabels  matcher.Labels
		causeKey       string
	}
	f := func(name string, change func(cause, symptom *rules.Rule), l lines, related, inhibits bool) {
		t.Helper()
		cause, symptom := pair(change)
		for _, order := range [][]*rules.Rule{{cause, symptom}, {symptom, cause}} {
			b := newBench(t, order...)
			if l.causeKey == "" {
				l.causeKey = "a"
			}
			values := []string{l.causeKey, "n"}[:len(cause.By)]
			b.take(time.Minute, labelled(cause, 0, l.cause, l.causeLabels, values...), labelled(symptom, 0, l.symptom, l.symptomLabels, "a", "p"))
			b.advance(time.Minute)
			x := b.newest("Symptom")
			require.Equal(t, related, x.Cause != nil, name)
			require.Equal(t, inhibits, x.Inhibit, name)
			_, annotated := x.Annotations["cause_alertname"]
			require.Equal(t, related, annotated, name)
		}
	}
	s := time.Second
	later := lines{cause: 20 * s, symptom: 10 * s}
	earlier := lines{cause: 10 * s, symptom: 20 * s}
	f("earlier", nil, earlier, true, true)
	f("later", nil, later, false, false)
	f("at the same time", nil, lines{cause: 10 * s, symptom: 10 * s}, false, false)
	lag := func(d time.Duration) func(_, symptom *rules.Rule) {
		return func(_, symptom *rules.Rule) { symptom.Causes[0].Lag = d }
	}
	f("within its lag", lag(10*s), later, true, true)
	f("beyond its lag", lag(10*s-1), later, false, false)
	f("other key", nil, lines{cause: 10 * s, symptom: 20 * s, causeKey: "b"}, false, false)
	f("no label must agree", func(_, symptom *rules.Rule) { symptom.Causes[0].Same = []string{} }, lines{cause: 10 * s, symptom: 20 * s, causeKey: "b"}, true, true)
	same := func(names ...string) func(cause, symptom *rules.Rule) {
		return func(_, symptom *rules.Rule) { symptom.Causes[0].Same = names }
	}
	f("a label that the cause lacks", same("k", "pod"), earlier, false, false)
	f("no label in common", func(cause, _ *rules.Rule) {
		cause.By, cause.CapturedNames = []string{"node"}, []string{"node"}
		cause.Clear.Same = nil
	}, earlier, false, false)
	f("an absent value", func(_, symptom *rules.Rule) { symptom.Causes[0].Same = []string{} }, lines{cause: 10 * s, symptom: 20 * s, causeLabels: matcher.Labels{"cluster": "one"}}, false, false)
	f("another cluster", nil, lines{cause: 10 * s, symptom: 20 * s, causeLabels: matcher.Labels{"cluster": "one"}, symptomLabels: matcher.Labels{"cluster": "two"}}, false, false)
	f("the same cluster", nil, lines{cause: 10 * s, symptom: 20 * s, causeLabels: matcher.Labels{"cluster": "one"}, symptomLabels: matcher.Labels{"cluster": "one"}}, true, true)
	f("another cluster, no label must agree", same(), lines{cause: 10 * s, symptom: 20 * s, causeLabels: matcher.Labels{"cluster": "one"}, symptomLabels: matcher.Labels{"cluster": "two"}}, false, false)
	f("identity is named", same("cluster", "k"), earlier, true, true)
	f("a pending cause", func(cause, _ *rules.Rule) { cause.For = time.Hour }, earlier, false, false)
	f("a less severe cause", func(cause, _ *rules.Rule) { cause.Severity = rules.SeverityInfo }, earlier, true, false)
	f("an equally severe cause", func(cause, _ *rules.Rule) { cause.Severity = rules.SeverityWarning }, earlier, true, true)
	f("a cause that nobody is notified of", func(cause, _ *rules.Rule) { cause.Mode = rules.ModeSilent }, earlier, true, false)
	f("a cause without severity", func(cause, symptom *rules.Rule) {
		cause.Severity, symptom.Severity = rules.SeverityNone, rules.SeverityNone
	}, earlier, true, false)

	// Anybody may write the lines of a rule that trusts every namespace.
	any := func(cause, symptom *rules.Rule) { cause.Infrastructure, symptom.Causes[0].Same = false, []string{} }
	team, system := matcher.Labels{"namespace": "team-a"}, matcher.Labels{"namespace": "kube-system"}
	f("a forged cause", any, lines{cause: 10 * s, symptom: 20 * s, causeLabels: team, symptomLabels: system}, false, false)
	f("its own namespace", any, lines{cause: 10 * s, symptom: 20 * s, causeLabels: team, symptomLabels: team}, true, true)
	f("infrastructure", same(), lines{cause: 10 * s, symptom: 20 * s, causeLabels: system, symptomLabels: team}, true, true)
}

// A symptom that somebody may have been notified of is not inhibited later, and one whose
// cause ended is not inhibited again.
func TestInhibitionIsDecidedOnce(t *testing.T) {
	cause, symptom := pair(func(_, symptom *rules.Rule) { symptom.Causes[0].Lag = time.Hour })
	b := newBench(t, symptom, cause)
	b.take(time.Second, lineHit(symptom, 0, time.Second, "lost", "a", "p"))
	b.advance(2 * time.Second)
	require.False(t, b.newest("Symptom").Inhibit)
	b.take(3*time.Second, lineHit(cause, 0, 3*time.Second, "slow", "a"))
	b.advance(4 * time.Second)
	require.NotNil(t, b.newest("Symptom").Cause)
	require.False(t, b.newest("Symptom").Inhibit, "it was reported without")

	b = newBench(t, symptom, cause)
	b.take(time.Second, lineHit(cause, 0, time.Second, "slow", "a"), lineHit(symptom, 0, 2*time.Second, "lost", "a", "p"))
	b.advance(2 * time.Second)
	require.True(t, b.newest("Symptom").Inhibit)
	b.take(5*time.Second, lineHit(cause, matcher.PartClear, 5*time.Second, "fine", "a"))
	b.advance(6 * time.Second)
	require.False(t, b.newest("Symptom").Inhibit)
	b.take(7*time.Second, lineHit(cause, 0, 7*time.Second, "slow again", "a"))
	b.advance(8 * time.Second)
	require.NotNil(t, b.newest("Symptom").Cause, "within its lag")
	require.False(t, b.newest("Symptom").Inhibit)
}

// A second cause takes over without a gap.
func TestSeveralCauses(t *testing.T) {
	cause, symptom := pair(func(_, symptom *rules.Rule) { symptom.Causes = append(symptom.Causes, rules.Cause{Alert: "Other"}) })
	other := *cause
	other.Alert, other.Hash = "Other", "o"
	b := newBench(t, symptom, cause, &other)
	b.take(time.Second, lineHit(&other, 0, time.Second, "slow", "a"), lineHit(cause, 0, 2*time.Second, "slow", "a"), lineHit(symptom, 0, 3*time.Second, "lost", "a", "p"))
	b.advance(4 * time.Second)
	require.Equal(t, "Cause", b.newest("Symptom").Cause.Alert, "the first in the list")
	b.take(5*time.Second, lineHit(cause, matcher.PartClear, 5*time.Second, "fine", "a"))
	b.advance(6 * time.Second)
	require.Equal(t, "Other", b.newest("Symptom").Cause.Alert)
	require.True(t, b.newest("Symptom").Inhibit)
}

// A restart keeps the relation and whether it inhibits.
func TestRestartKeepsTheRelation(t *testing.T) {
	cause, symptom := pair(func(_, symptom *rules.Rule) { symptom.Causes[0].Lag = time.Hour })
	b := newBench(t, symptom, cause)
	b.take(time.Second, lineHit(cause, 0, time.Second, "slow", "a"), lineHit(symptom, 0, 2*time.Second, "lost", "a", "p"))
	b.advance(3 * time.Second)
	before := b.newest("Symptom")
	b.restart(4 * time.Second)
	b.advance(5 * time.Second)
	require.Equal(t, before.Cause, b.newest("Symptom").Cause)
	require.True(t, b.newest("Symptom").Inhibit)

	b = newBench(t, symptom, cause)
	b.take(time.Second, lineHit(symptom, 0, time.Second, "lost", "a", "p"))
	b.restart(2 * time.Second)
	b.take(3*time.Second, lineHit(cause, 0, 3*time.Second, "slow", "a"))
	b.advance(4 * time.Second)
	require.NotNil(t, b.newest("Symptom").Cause)
	require.False(t, b.newest("Symptom").Inhibit)

	// Ended episodes keep their cause.
	b.take(5*time.Second, lineHit(symptom, matcher.PartClear, 5*time.Second, "fine", "a", "p"))
	b.advance(6 * time.Second)
	ended := b.newest("Symptom")
	require.NotNil(t, ended.Cause)
	b.restart(7 * time.Second)
	b.advance(8 * time.Second)
	require.Equal(t, ended.Cause, b.newest("Symptom").Cause)
}

// A reload that states the cause changes neither the alert nor its start.
func TestReloadStatesTheCause(t *testing.T) {
	cause, symptom := pair(nil)
	without := *symptom
	without.Causes = nil
	b := newBench(t, &without, cause)
	b.take(time.Second, lineHit(cause, 0, time.Second, "slow", "a"), lineHit(&without, 0, 2*time.Second, "lost", "a", "p"))
	b.advance(3 * time.Second)
	before, n := b.newest("Symptom"), len(b.reported)
	require.Nil(t, before.Cause)
	b.e.Swap(&rules.Set{Rules: []*rules.Rule{symptom, cause}}, at(4*time.Second))
	b.advance(5 * time.Second)
	after := b.newest("Symptom")
	require.Equal(t, "Cause", after.Cause.Alert)
	require.False(t, after.Inhibit)
	require.Equal(t, before.Fingerprint, after.Fingerprint)
	require.Equal(t, before.FiredAt, after.FiredAt)
	for _, x := range b.reported[n:] {
		require.Equal(t, StateFiring, x.State)
	}
}

// Alerts whose cause stays the same are not reported again because of it.
func TestRelationIsReportedOnce(t *testing.T) {
	cause, symptom := pair(nil)
	b := newBench(t, symptom, cause)
	b.take(time.Second, lineHit(cause, 0, time.Second, "slow", "a"), lineHit(symptom, 0, 2*time.Second, "lost", "a", "p"))
	b.advance(3 * time.Second)
	n := len(b.reported)
	for i := range 10 {
		d := time.Duration(4+i) * time.Second
		b.take(d, lineHit(cause, 0, d, "slow still", "a"), lineHit(cause, 0, d, "slow elsewhere", fmt.Sprint(i)))
		b.advance(d)
	}
	for _, x := range b.reported[n:] {
		require.NotEqual(t, "Symptom", x.Alert)
	}
}

// TestRelationsDoNotDependOnTheOrderOfArrival reads the same lines in two orders.
func TestRelationsDoNotDependOnTheOrderOfArrival(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seconds := func(label string, lo, hi int) time.Duration {
			return time.Duration(rapid.IntRange(lo, hi).Draw(t, label)) * time.Second
		}
		cause, symptom := pair(func(cause, symptom *rules.Rule) {
			symptom.Causes[0].Lag = seconds("lag", 0, 20)
			for _, r := range []*rules.Rule{cause, symptom} {
				if r.Count = 1; rapid.Bool().Draw(t, "counts") {
					r.Count, r.Within = rapid.IntRange(2, 3).Draw(t, "count"), seconds("within", 5, 30)
				}
				// A count that was true when it was read stays, even if a clear line divides it
				// that is read later.
				if r.Count > 1 || rapid.Bool().Draw(t, "without clear") {
					r.Clear, r.Expire, r.KeepFiringFor = nil, 0, time.Minute
				}
			}
		})
		var lines []matcher.Hit
		n := rapid.IntRange(2, 25).Draw(t, "lines")
		for i := range n {
			r := rapid.SampledFrom([]*rules.Rule{cause, symptom}).Draw(t, "rule")
			part := matcher.Part(0)
			if r.Clear != nil && rapid.IntRange(0, 4).Draw(t, "part") == 0 {
				part = matcher.PartClear
			}
			values := []string{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "k"), "p"}[:len(r.By)]
			lines = append(lines, lineHit(r, part, seconds("t", 0, 50), fmt.Sprint(i), values...))
		}
		read := func(lines []matcher.Hit) map[string]string {
			b := &bench{t: t, set: &rules.Set{Rules: []*rules.Rule{symptom, cause}}}
			b.e = b.engine(Config{})
			for _, h := range lines {
				b.take(time.Minute, h)
				b.e.Evaluate(at(time.Minute))
			}
			out := map[string]string{}
			for _, x := range b.e.Episodes(at(time.Minute)) {
				if x.State == StateFiring {
					id := x.Alert + x.Labels["k"]
					out[id] = ""
					if x.Cause != nil {
						out[id] = x.Cause.Alert + x.Cause.Labels["k"]
					}
				}
			}
			return out
		}
		inTime := slices.Clone(lines)
		slices.SortStableFunc(inTime, func(a, b matcher.Hit) int { return a.Time.Compare(b.Time) })
		want, got := read(inTime), read(rapid.Permutation(lines).Draw(t, "order"))
		require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)), "open alerts")
		require.Equal(t, want, got)
	})
}
