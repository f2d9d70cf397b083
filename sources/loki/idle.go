package loki

import (
	"context"
	"fmt"
	"time"

	"crowsnest/sources"
)

const (
	// probeEvery is the interval of the queries whether the selected streams exist. The
	// queries end when one exists.
	probeEvery = time.Minute
	// probeBack is the largest age of an entry that proves that a stream exists.
	probeBack = time.Hour
)

// probeEntry queries any entry of the selected streams, until Loki returned one. Rules match
// few lines, so an empty response to their queries does not show whether the streams exist.
// Loki returns the same response for a tenant that does not exist.
func (s *Source) probeEntry(ctx context.Context) *failure {
	now := s.cfg.Clock()
	if s.exist || len(s.plan.queries) == 0 || !s.probed.IsZero() && now.Sub(s.probed) < probeEvery && !now.Before(s.probed) {
		return nil
	}
	s.mu.Lock()
	s.exist = s.streams.Len() > 0
	s.mu.Unlock()
	for i := 0; i < len(s.plan.queries) && !s.exist; i++ {
		var a answer
		selector, _ := cutSelector(s.plan.queries[i])
		q := query{logql: selector, from: now.Add(-probeBack).UnixNano(), to: now.UnixNano(), limit: 1}
		if f := s.asker.client.sendQuery(ctx, q, &a); f != nil {
			s.asker.failed(f)
			return f
		}
		s.exist = a.count > 0
	}
	s.probed = now
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Idle, s.status.IdleReason = "", ""
	if !s.exist {
		s.status.Idle, s.status.IdleReason = s.whyEmpty(), sources.IdleNoLogs
	}
	return nil
}

// whyEmpty explains that Loki has no entry of the selected streams.
func (s *Source) whyEmpty() string {
	tenant := "without a tenant"
	if s.tenant != "" {
		tenant = fmt.Sprintf("for tenant %q", s.tenant)
	}
	return fmt.Sprintf("Loki answers %s and has no line of the last %v in any stream that %s and the rules select", tenant, probeBack, s.planner.selector)
}
