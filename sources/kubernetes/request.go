package kubernetes

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"crowsnest/internal/pause"
	"crowsnest/kube"
)

const (
	// failingAfter is how long the logs of a node must be unreadable until that is
	// reported.
	failingAfter = 10 * time.Second
	// lostAfter is how often the log of a terminated instance is requested.
	lostAfter = 8
	// maxStartWait is the retry interval for a container that is about to start.
	maxStartWait = time.Second
)

// begin records the start of a request.
func (st *stream) begin(cancel func()) time.Time {
	st.mu.Lock()
	defer st.mu.Unlock()
	now := st.s.cfg.Clock()
	st.openedAt, st.answered, st.ending, st.movedAt, st.sure = now, false, cancel, now, st.watermark
	return now
}

func (st *stream) over() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.answered, st.ending = false, nil
}

// opened records that the log is open: it was answered, or not refused for
// openAfter.
func (st *stream) opened(c container) {
	st.mu.Lock()
	st.answered, st.failing = st.ending != nil, time.Time{}
	st.mu.Unlock()
	s := st.s
	s.gates.open(keyCredentials, logsOf(c))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range []string{keyCredentials, logsOf(c), "logs"} {
		delete(s.problems, key)
	}
	s.problems.clear(nodeOf(c), c.key())
}

// retract takes back that the log was open: the answer was an error.
func (st *stream) retract() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.watermark = st.sure
}

// opensAfter is when a request without an answer counts as open.
func (st *stream) opensAfter() time.Duration {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.failing.IsZero() {
		return openAfter
	}
	return reopenAfter
}

func nodeOf(c container) string { return "node " + c.node }

// outcome records how a request ended, and returns how long to wait before the next
// one.
func (r *reader) outcome(err error, c container, fresh int) time.Duration {
	s := r.st.s
	if err == nil || errors.Is(err, errReopen) || errors.Is(err, errIdle) || errors.Is(err, errBroken) {
		r.tries = 0
		r.st.solved()
		s.solved(textOf(c), c)
	}
	switch {
	case errors.Is(err, errIdle):
		r.idle, r.reopened = min(2*r.idle, maxIdle), true
		return 0
	case errors.Is(err, errReopen):
		return 0
	case err == nil, errors.Is(err, errBroken):
		if err != nil {
			s.count("cut")
		}
		if fresh > 0 {
			r.empty = 0
		}
		r.empty++
		return pause.Backoff(retryAfter, maxRetryWait, r.empty)
	}
	r.tries++
	return r.failed(err, c)
}

// failed handles requests that did not return a log, and returns how long to wait.
func (r *reader) failed(err error, c container) time.Duration {
	s, now := r.st.s, r.st.s.cfg.Clock()
	r.st.stall(now, err.Error())
	r.st.retract()
	code := kube.Code(err)
	wait := pause.Backoff(kube.FirstRetry, kube.SlowRetry, r.tries)
	switch {
	case code == http.StatusUnauthorized && r.tries == 1:
		s.count("unauthorized")
		return kube.FirstRetry // the credentials are read again
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		key, text := refusal(err, logsOf(c))
		s.gates.close(key, now.Add(kube.SlowRetry))
		s.problem(reasonOf(err), key, c, text)
		return kube.SlowRetry
	}
	switch {
	case code == http.StatusBadRequest && c.phase == running: // the kubelet and the status disagree
		s.count("not_started")
		wait = min(wait, maxStartWait)
	case errors.Is(err, errNotALog):
		s.problem("text", textOf(c), c, fmt.Sprintf("the log of %s: %v", c.path(), err))
	case code == http.StatusTooManyRequests:
		s.count("throttled")
		wait = max(wait, kube.RetryAfter(err))
	case code >= http.StatusInternalServerError:
		s.count("server")
		if r.st.fails(now) >= failingAfter {
			s.problem("", nodeOf(c), c, fmt.Sprintf("logs of node %s cannot be read: %v", c.node, err))
		}
	case code == 0:
		s.count("network")
		if r.st.fails(now); r.tries >= 5 {
			s.problem("", "logs", c, fmt.Sprintf("logs cannot be read: %v", err))
		}
	default:
		s.count(reasonOf(err))
	}
	if c.phase == ended && r.tries >= lostAfter && (code == http.StatusBadRequest || code == http.StatusNotFound || errors.Is(err, errNotALog)) {
		r.loseInstance(c)
		return 0
	}
	return wait
}

// loseInstance gives up on the log of a terminated instance that no longer exists.
func (r *reader) loseInstance(c container) {
	s := r.st.s
	s.solved(textOf(c), c)
	s.mu.Lock()
	s.miss("removed", c.path(), s.cfg.Clock())
	s.mu.Unlock()
	r.take(&lines{}, func(p *position) { p.Done = p.ID == c.id })
}

// fails records that the log cannot be opened, and returns for how long already.
func (st *stream) fails(now time.Time) time.Duration {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.failing.IsZero() {
		st.failing = now
	}
	return now.Sub(st.failing)
}

// textOf is the key of the problem that a kubelet sends a message instead of a log.
func textOf(c container) string { return "text of " + c.path() }

// problem reports a problem, and counts a failure unless reason is "".
func (s *Source) problem(reason, key string, c container, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reason != "" {
		s.errs[reason]++
	}
	s.problems.set(key, c.key(), text)
}

func (s *Source) solved(key string, c container) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems.clear(key, c.key())
}
