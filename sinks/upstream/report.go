package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"crowsnest/hits"
)

// The times of reports.
const (
	reportRetry = 5 * time.Second
	reportOlder = 5 * time.Minute // after an aggregator that takes no reports
)

// reporter holds what the agent reports about itself. Sink.mu guards it.
type reporter struct {
	now    hits.Report      // as the daemon reported last
	missed []hits.Condition // over before the aggregator was notified

	body   []byte
	digest string
	sent   map[string]bool // keys of conditions that the aggregator accepted
	posted string          // digest of the last accepted report
	token  string          // the aggregator's answer to that report
	after  uint64          // batch that must be accepted first
	behind map[string]time.Time
	retry  time.Time // not before
}

// Report replaces the agent's report; the sink sets its Node and Instance. The hits that
// the sink accepted so far are accepted by the aggregator before changed rules or another
// version of packs are reported. A counted condition that ended before the aggregator
// received it is reported once.
func (s *Sink) Report(report hits.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.report
	now := map[string]bool{}
	for i := range report.Conditions {
		now[report.Conditions[i].Key()] = true
	}
	for _, c := range r.now.Conditions {
		if k := c.Key(); !now[k] && c.Count > 0 && !r.sent[k] {
			c.Over = true
			r.missed = append(r.missed, c)
		}
	}
	r.missed = slices.DeleteFunc(r.missed, func(c hits.Condition) bool { return now[c.Key()] })
	r.missed = r.missed[max(0, len(r.missed)-hits.MaxConditions/2):]
	maps.DeleteFunc(r.sent, func(k string, _ bool) bool { return !now[k] })
	if r.now.Rules != nil && !maps.Equal(r.now.Rules, report.Rules) {
		s.seal() // hits of the old rules are accepted before the new rules are reported
		r.after = s.seq
	}
	r.now = report
	r.now.ClockSet = s.steady.Ahead(s.now()).Round(time.Second)
	r.now.Node, r.now.Instance, r.now.Conditions = s.cfg.Node, s.instance, slices.Clone(report.Conditions)
	s.sealReport()
}

// sealReport encodes the report. The caller holds mu.
func (s *Sink) sealReport() {
	r := &s.report
	all := r.now
	all.Conditions = slices.Concat(r.now.Conditions, r.missed)
	body, digest := all.Seal()
	if digest != r.digest {
		r.body, r.digest = body, digest
		s.notify()
	}
}

// reportDue returns the report if it must be sent now. held is the token of the
// report that the aggregator has.
func (s *Sink) reportDue(held string, now time.Time) (body []byte, digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.report
	if r.body == nil || s.taken < r.after || now.Before(r.retry) || r.posted == r.digest && held == r.token && held != "" {
		return nil, ""
	}
	return r.body, r.digest
}

// sendReport sends the report if it is due. A failure delays hits for no longer
// than one request.
func (w *sender) sendReport(ctx context.Context, held string) {
	s := w.s
	body, digest := s.reportDue(held, s.now())
	if body == nil {
		return
	}
	var said hits.ReportAnswer
	a := w.post(ctx, hits.ReportPath, "application/json", body)
	if a.err == nil {
		if json.Unmarshal(a.text, &said) != nil || said.Report == "" {
			a.err = errors.New("the answer to a report does not come from crowsnest")
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reported(a, said, digest)
}

// reported records the answer to a report. The caller holds mu.
func (s *Sink) reported(a answer, said hits.ReportAnswer, digest string) {
	r := &s.report
	switch {
	case a.err == nil:
		s.st.ReportError = ""
	case a.code == http.StatusNotFound:
		s.st.ReportError = "the aggregator is older than this agent and takes no reports: what is wrong on this node is only in this agent's metrics and log"
		r.retry = s.now().Add(reportOlder)
		return
	default:
		s.st.ReportError = a.err.Error()
		r.retry = s.now().Add(reportRetry)
		return
	}
	r.posted, r.token = digest, said.Report
	r.behind, s.builder.Whole = said.Behind, map[string]bool{}
	for name := range said.Behind {
		s.builder.Whole[name] = true
	}
	if digest != r.digest {
		return // it changed meanwhile: the next report contains everything
	}
	r.sent = map[string]bool{}
	for i := range r.now.Conditions {
		r.sent[r.now.Conditions[i].Key()] = true
	}
	if len(r.missed) > 0 {
		r.missed = nil
		s.sealReport()
	}
}

// Behind returns the rules of which the aggregator has another version than this
// agent, and since when, by its last answer.
func (s *Sink) Behind() map[string]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	out, set := make(map[string]time.Time, len(s.report.behind)), s.steady.Ahead(s.now())
	for rule, since := range s.report.behind {
		out[rule] = since.Add(set)
	}
	return out
}
