package alertmanager

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/rules"
)

// symptomOf returns a firing warning whose cause has a severity.
func symptomOf(cause rules.Severity) episodes.Episode {
	ep := fire("Lost")
	ep.Rule = &rules.Rule{Alert: "Lost"}
	ep.Inhibit = true
	ep.Cause = &episodes.Cause{Fingerprint: 7, Alert: "Slow", Severity: string(cause)}
	return ep
}

// The symptom is sent as it is; a second alert says that its cause is known, as long as it is.
func TestMarkFollowsTheRelation(t *testing.T) {
	inBubble(t, 2, func(b *bench) {
		b.sink.cfg.Inhibit = true
		ep := symptomOf(rules.SeverityCritical)
		b.notify(ep)
		for _, am := range b.ams {
			require.Len(t, am.Accepted("Lost"), 1)
			w := am.Accepted(rules.CauseKnown)
			require.Len(t, w, 1)
			require.Equal(t, map[string]string{
				"alertname": rules.CauseKnown, "severity": "none", "namespace": "default", "cluster": "c1",
				"symptom": "Lost", "symptom_severity": "warning", "cause_severity": "critical",
			}, w[0].Alert.Labels)
			require.Contains(t, w[0].Alert.Annotations["summary"], "Lost is a symptom of Slow")
		}
		b.pass(5 * time.Minute)
		ep.Inhibit, ep.Cause = false, nil
		b.notify(ep)
		b.told(rules.CauseKnown, "firing resolved")
		b.told("Lost", "firing")
		b.pass(time.Minute)
		b.told("Lost", "firing")

		// It is not inhibited again, but the next failure is.
		b.notify(end(ep))
		b.told("Lost", "firing resolved")
		next := symptomOf(rules.SeverityWarning)
		b.notify(next)
		var second int
		for _, w := range b.ams[0].Accepted(rules.CauseKnown) {
			if w.Alert.Labels["cause_severity"] == "warning" {
				second++
			}
		}
		require.Equal(t, 1, second)
	})
}

func TestNoMark(t *testing.T) {
	f := func(name string, inhibit bool, change func(ep *episodes.Episode)) {
		t.Helper()
		inBubble(t, 1, func(b *bench) {
			b.sink.cfg.Inhibit = inhibit
			ep := symptomOf(rules.SeverityCritical)
			change(&ep)
			b.notify(ep)
			b.pass(2 * time.Minute)
			require.Empty(t, b.ams[0].Accepted(rules.CauseKnown), name)
			require.NotEmpty(t, b.ams[0].Accepted("Lost"), name)
		})
	}
	f("not configured", false, func(*episodes.Episode) {})
	f("not inhibited", true, func(ep *episodes.Episode) { ep.Inhibit = false })
	f("no cause", true, func(ep *episodes.Episode) { ep.Cause = nil })
	f("a less severe cause", true, func(ep *episodes.Episode) { ep.Cause.Severity = "info" })
	f("an overflow", true, func(ep *episodes.Episode) { ep.Overflow = true })
	f("a label of the same name", true, func(ep *episodes.Episode) { ep.Labels["symptom"] = "x" })
}

// A relation that ended while crowsnest was down ends the mark after the start, and so does a
// configuration that no longer inhibits.
func TestMarkEndsAfterARestart(t *testing.T) {
	f := func(inhibit bool, change func(*episodes.Episode)) {
		t.Helper()
		testMarkEnds(t, inhibit, change)
	}
	f(true, func(ep *episodes.Episode) { ep.Inhibit, ep.Cause = false, nil })
	f(false, func(*episodes.Episode) {})
}

func testMarkEnds(t *testing.T, inhibit bool, change func(*episodes.Episode)) {
	t.Helper()
	ep := symptomOf(rules.SeverityCritical)
	ep.Rule.Causes = []rules.Cause{{Alert: "Slow"}}
	cfg := Config{URLs: []string{"http://am:9093"}, Inhibit: true}
	s, err := New(cfg, Options{})
	require.NoError(t, err)
	now := time.Now()
	mark, ok := markSymptom(&ep, rules.SeverityCritical)
	require.True(t, ok)
	st := s.endpoints[0].State()
	s.Notify([]episodes.Episode{ep})
	st.Accepted(st.Due(now, 10), now)
	data, err := s.Export()
	require.NoError(t, err)

	cfg.Inhibit = inhibit
	s, err = New(cfg, Options{})
	require.NoError(t, err)
	require.NoError(t, s.Import(data))
	change(&ep)
	s.Notify([]episodes.Episode{ep})
	var ended []string
	for _, m := range s.endpoints[0].State().Due(now.Add(10*time.Minute), 10) {
		if m.Resolved {
			ended = append(ended, m.Episode.Alert)
			require.Equal(t, mark.Fingerprint, m.Episode.Fingerprint)
		}
	}
	require.Equal(t, []string{rules.CauseKnown}, ended)
}
