package client

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/agent/wire"
	"crowsnest/matcher"
	"crowsnest/rules"
)

// report accepts a report. The caller holds mu.
func (p *peer) report(w *httptest.ResponseRecorder, body []byte) {
	if p.refuses != 0 {
		http.Error(w, "no", p.refuses)
		return
	}
	r, err := wire.ReadReport(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.reports = append(p.reports, r)
	p.answers.Report = wire.Digest(body)
	_ = json.NewEncoder(w).Encode(p.answers)
}

// reported returns the reports since the last call, after 10 s.
func (p *peer) reported() []wire.Report {
	time.Sleep(10 * time.Second) // virtual
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.reports
	p.reports = nil
	return out
}

var loss = wire.Condition{Alert: "CrowsnestLinesLost", Severity: "warning", Count: 1, Since: time.Unix(1, 0).UTC()}

// A report is sent when it changes, and again when the aggregator lost it.
func TestReportsAreSentOnce(t *testing.T) {
	p := &peer{}
	run(t, p, 0, func(t *testing.T, s *Sink, stop func()) {
		require.Empty(t, p.reported())
		s.Report(wire.Report{Rules: map[string]string{"A": "1f"}})
		require.Equal(t, []wire.Report{{Node: "n1", Instance: s.instance, Rules: map[string]string{"A": "1f"}}}, p.reported())
		s.Report(wire.Report{Rules: map[string]string{"A": "1f"}})
		require.Empty(t, p.reported())
		s.Report(wire.Report{Conditions: []wire.Condition{loss}})
		require.Len(t, p.reported(), 1)
		p.set(func() { p.answers.Report = "" })
		require.Len(t, p.reported(), 1, "the aggregator was restarted")
		stop()
	})
}

// A loss that is over before the aggregator could be reached is reported once.
func TestALossDuringAnOutageIsReported(t *testing.T) {
	p := &peer{refuse: func(wire.Message) (int, bool) { return http.StatusUnauthorized, true }}
	run(t, p, 0, func(t *testing.T, s *Sink, stop func()) {
		s.Report(wire.Report{Conditions: []wire.Condition{loss, {Alert: "CrowsnestPackBroken", Severity: "warning"}}})
		require.Empty(t, p.reported())
		require.Equal(t, reasonAuth, s.Stats().LastReason)
		s.Report(wire.Report{})
		p.set(func() { p.refuse = nil })
		got := p.reported()
		over := loss
		over.Ended = true
		require.Equal(t, []wire.Condition{over}, got[0].Conditions, "a pack that is whole again concerns nobody")
		require.Len(t, got, 2)
		require.Empty(t, got[1].Conditions)
		s.Report(wire.Report{Conditions: []wire.Condition{loss}})
		require.Len(t, p.reported(), 1)
		s.Report(wire.Report{})
		require.Empty(t, p.reported()[0].Conditions, "it was reported while it was open")
		stop()
	})
}

// A report that is refused does not stop the hits, and is sent again.
func TestARefusedReport(t *testing.T) {
	p := &peer{refuses: http.StatusNotFound}
	run(t, p, 0, func(t *testing.T, s *Sink, stop func()) {
		s.Report(wire.Report{Conditions: []wire.Condition{loss}})
		s.Take(some(3))
		require.Empty(t, p.reported())
		require.Equal(t, "status 404: no", s.Stats().ReportError)
		require.Equal(t, int64(3), s.Stats().Accepted)
		p.set(func() { p.refuses = 0 })
		require.Len(t, p.reported(), 1)
		require.Empty(t, s.Stats().ReportError)
		stop()
	})
}

// Every line of a rule that the aggregator has in another version keeps its text.
func TestLinesOfOtherVersionsStayWhole(t *testing.T) {
	p := &peer{answers: wire.ReportAnswer{MismatchedRules: map[string]time.Time{"A": time.Unix(1, 0)}}}
	run(t, p, 0, func(t *testing.T, s *Sink, stop func()) {
		s.Report(wire.Report{Rules: map[string]string{"A": "1f"}})
		require.Len(t, p.reported(), 1)
		s.mu.Lock()
		defer s.mu.Unlock()
		texts := func(alert string) int {
			r := &rules.Rule{Alert: alert, Hash: "1", Mode: rules.ModeOn, Count: 1, Steps: make([]rules.Step, 1)}
			for i := range 9 {
				s.builder.Add(&matcher.Hit{Rule: r, Line: string(rune('a' + i)), ID: uint64(i)})
			}
			b, err := new(wire.Decoder).Decode(s.builder.Seal())
			require.NoError(t, err)
			found, _ := b.FindHits(wire.NewIndex(&rules.Set{Rules: []*rules.Rule{r}}))
			seen := map[string]bool{}
			for _, h := range found {
				seen[h.Line] = true
			}
			return len(seen)
		}
		require.Equal(t, 9, texts("A"))
		require.Equal(t, 2, texts("B"))
		require.Equal(t, 9, texts("A"), "after a batch was sealed")
	})
}

// The aggregator has the hits of the old rules when it learns of the new ones.
func TestNewRulesAreReportedAfterOlderHits(t *testing.T) {
	p := &peer{refuse: func(m wire.Message) (int, bool) {
		if m.Payload == nil {
			return 0, false
		}
		return http.StatusServiceUnavailable, true
	}}
	run(t, p, 0, func(t *testing.T, s *Sink, stop func()) {
		s.Report(wire.Report{Rules: map[string]string{"A": "1f"}})
		require.Len(t, p.reported(), 1)
		s.Take(some(3))
		s.Report(wire.Report{Rules: map[string]string{"A": "2f"}})
		require.Empty(t, p.reported(), "its hits are not accepted yet")
		p.set(func() { p.refuse = nil })
		reports := p.reported()
		require.Len(t, reports, 1)
		require.Equal(t, map[string]string{"A": "2f"}, reports[0].Rules)
		s.Report(wire.Report{Rules: map[string]string{"A": "2f"}})
		require.Empty(t, p.reported(), "it is the same")
		stop()
	})
}
