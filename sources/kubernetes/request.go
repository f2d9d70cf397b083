package kubernetes

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"crowsnest/sources/internal/kube"
)

const (
	// failingAfter is how long the logs of a node cannot be read until that is
	// said.
	failingAfter = 10 * time.Second
	// lostAfter is how many tries the log of an instance that ended is asked for.
	lostAfter = 8
	// startingMost is how long is waited for a container that is about to start.
	startingMost = time.Second
)

// begin notes a request.
func (st *stream) begin(cancel func()) time.Time {
	st.mu.Lock()
	defer st.mu.Unlock()
	now := st.s.cfg.Clock()
	st.openedAt, st.answered, st.ending, st.movedAt = now, false, cancel, now
	return now
}

// over notes its end.
func (st *stream) over() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.answered, st.ending = false, nil
}

// opened notes that the log is open: it was answered, or not refused for long
// enough.
func (st *stream) opened(c container) {
	st.mu.Lock()
	st.answered, st.failing = st.ending != nil, time.Time{}
	st.mu.Unlock()
	s := st.s
	s.gates.passed(keyCredentials, logsOf(c))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range []string{keyCredentials, logsOf(c), "logs"} {
		s.problems.end(key)
	}
	s.problems.clear(nodeOf(c), c.key())
}

func nodeOf(c container) string { return "node " + c.node }

// outcome notes how a request ended, and returns how long to wait until the next
// one.
func (r *reader) outcome(err error, c container, fresh int) time.Duration {
	s := r.st.s
	if err == nil || errors.Is(err, errAgain) || errors.Is(err, errQuiet) || errors.Is(err, errCut) {
		r.tries = 0
		s.solved(textOf(c), c)
	}
	switch {
	case errors.Is(err, errQuiet):
		r.quiet, r.reopened = min(2*r.quiet, mostQuiet), true
		return 0
	case errors.Is(err, errAgain):
		return 0
	case err == nil, errors.Is(err, errCut):
		if err != nil {
			s.count("cut")
		}
		if fresh > 0 {
			r.empty = 0
		}
		r.empty++
		return jitter(min(againAfter<<min(r.empty-1, 10), againMost))
	}
	r.tries++
	return r.failed(err, c)
}

// failed is the part of outcome for requests that were not answered with a log.
func (r *reader) failed(err error, c container) time.Duration {
	s, now := r.st.s, r.st.s.cfg.Clock()
	code := kube.Code(err)
	wait := min(leastWait<<min(r.tries-1, 10), mostWait)
	switch {
	case code == http.StatusUnauthorized && r.tries == 1:
		s.count("unauthorized")
		return leastWait // the credentials are read anew
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		key, text := refusal(err, logsOf(c))
		s.gates.shut(key, now.Add(slowRetry))
		s.problem(reasonOf(err), key, c, text)
		return slowRetry
	}
	s.gates.unsure(now, keyCredentials, logsOf(c))
	switch {
	case code == http.StatusBadRequest && c.phase == running: // the kubelet knows more than the status, or less
		s.count("not_started")
		wait = min(wait, startingMost)
	case errors.Is(err, errText):
		s.problem("text", textOf(c), c, fmt.Sprintf("the log of %s: %v", c.path(), err))
	case code == http.StatusTooManyRequests:
		s.count("throttled")
		wait = max(wait, kube.RetryAfter(err))
	case code >= http.StatusInternalServerError:
		s.count("server")
		if r.st.fails(now) >= failingAfter {
			s.problem("", nodeOf(c), c, fmt.Sprintf("logs of node %s cannot be read: %v", c.node, err))
		}
	case code == 0 && r.tries >= 5:
		s.problem("network", "logs", c, fmt.Sprintf("logs cannot be read: %v", err))
	default:
		s.count(reasonOf(err))
	}
	if c.phase == ended && r.tries >= lostAfter && (code == http.StatusBadRequest || code == http.StatusNotFound || errors.Is(err, errText)) {
		r.giveUp(c)
		return 0
	}
	return jitter(wait)
}

// giveUp is for an instance that ended and whose log is not there any more.
func (r *reader) giveUp(c container) {
	s := r.st.s
	s.solved(textOf(c), c)
	s.mu.Lock()
	s.miss("removed", c.path(), s.cfg.Clock())
	s.mu.Unlock()
	r.take(&lines{}, func(p *position) { p.done = p.id == c.id })
}

// fails notes that nothing can be opened, and returns for how long.
func (st *stream) fails(now time.Time) time.Duration {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.failing.IsZero() {
		st.failing = now
	}
	return now.Sub(st.failing)
}

// textOf is the key of what a kubelet says instead of a log.
func textOf(c container) string { return "text of " + c.path() }

// problem counts a failure, unless reason is "", and tells it.
func (s *Source) problem(reason, key string, c container, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reason != "" {
		s.errs[reason]++
	}
	s.problems.set(key, c.key(), text)
}

// solved ends a problem of one container.
func (s *Source) solved(key string, c container) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems.clear(key, c.key())
}
