package client

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"crowsnest/agent/wire"
)

// reportRetry is the pause before a report that failed is sent again.
const reportRetry = 5 * time.Second

// reporter holds the agent's report about itself. It is guarded by Sink.mu.
type reporter struct {
	latest           wire.Report      // newest report that the daemon passed to Report
	missedConditions []wire.Condition // counted conditions that ended before the aggregator received them

	body               []byte          // encoded report, including the missed conditions
	digest             string          // digest of body
	acceptedConditions map[string]bool // keys of the conditions that the aggregator has received
	posted             string          // digest of the last accepted report
	token              string          // identifier that the aggregator returned for the last accepted report
	requiredBatch      uint64          // number of the batch that the aggregator must accept before the report is sent
	behind             map[string]time.Time
	notBefore          time.Time
}

// Report replaces the agent's report, and sets its Node and Instance. If the rules differ from the rules of the last
// report, the new report is sent only after the aggregator has accepted all earlier hits. A condition with a Count that
// ended before the aggregator received it is reported once, as over.
func (s *Sink) Report(report wire.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.report
	open := map[string]bool{}
	for i := range report.Conditions {
		open[report.Conditions[i].Key()] = true
	}
	for _, c := range r.latest.Conditions {
		if key := c.Key(); c.Count > 0 && !open[key] && !r.acceptedConditions[key] {
			c.Ended = true
			r.missedConditions = append(r.missedConditions, c)
		}
	}
	r.missedConditions = slices.DeleteFunc(r.missedConditions, func(c wire.Condition) bool { return open[c.Key()] })
	r.missedConditions = r.missedConditions[max(0, len(r.missedConditions)-wire.MaxConditions/2):]
	maps.DeleteFunc(r.acceptedConditions, func(key string, _ bool) bool { return !open[key] })
	if r.latest.Rules != nil && !maps.Equal(r.latest.Rules, report.Rules) {
		s.sealBatch()
		r.requiredBatch = s.sealed
	}
	r.latest = report
	r.latest.ClockSet = s.steady.SetAhead(s.now()).Round(time.Second)
	r.latest.Node, r.latest.Instance, r.latest.Conditions = s.cfg.Node, s.instance, slices.Clone(report.Conditions)
	s.encodeReport()
}

// encodeReport encodes the report. The caller holds mu.
func (s *Sink) encodeReport() {
	r := &s.report
	whole := r.latest
	whole.Conditions = slices.Concat(r.latest.Conditions, r.missedConditions)
	body, digest := whole.Seal()
	if digest != r.digest {
		r.body, r.digest = body, digest
		s.wakeSender()
	}
}

// dueReport returns the report if it must be sent now, or nil. token identifies the report that the aggregator has.
func (s *Sink) dueReport(token string, now time.Time) (body []byte, digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.report
	if r.body == nil || s.accepted < r.requiredBatch || now.Before(r.notBefore) || r.posted == r.digest && token == r.token && token != "" {
		return nil, ""
	}
	return r.body, r.digest
}

// sendReport sends the report if it is due. An attempt that fails delays hits by at most the timeout of one request.
func (w *sender) sendReport(ctx context.Context, token string) {
	s := w.s
	body, digest := s.dueReport(token, s.now())
	if body == nil {
		return
	}
	var answer wire.ReportAnswer
	a := w.post(ctx, wire.ReportPath, "application/json", body)
	if a.err == nil && (json.Unmarshal(a.body, &answer) != nil || answer.Report == "") {
		a.err = errors.New("the response to a report does not come from crowsnest")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.report
	if a.err != nil {
		s.stats.ReportError, r.notBefore = a.err.Error(), s.now().Add(reportRetry)
		return
	}
	s.stats.ReportError = ""
	r.posted, r.token, r.behind = digest, answer.Report, answer.MismatchedRules
	s.builder.FullTextRules = map[string]bool{}
	for rule := range answer.MismatchedRules {
		s.builder.FullTextRules[rule] = true
	}
	if digest != r.digest {
		return // Report has replaced the report in the meantime, so the next call sends the new one.
	}
	r.acceptedConditions = map[string]bool{}
	for i := range r.latest.Conditions {
		r.acceptedConditions[r.latest.Conditions[i].Key()] = true
	}
	if len(r.missedConditions) > 0 {
		r.missedConditions = nil
		s.encodeReport()
	}
}

// MismatchedRules returns the names of the rules whose version at the aggregator differs from this
// agent's version, with the times since when. It is based on the aggregator's last answer.
func (s *Sink) MismatchedRules() map[string]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	out, set := make(map[string]time.Time, len(s.report.behind)), s.steady.SetAhead(s.now())
	for rule, since := range s.report.behind {
		out[rule] = since.Add(set)
	}
	return out
}
