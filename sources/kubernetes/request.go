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
	// failingAfter is the time after which unreadable logs of a node are reported.
	failingAfter = 10 * time.Second
	// lostAfter is the number of failed requests after which the log of a terminated instance
	// is given up.
	lostAfter = 8
	// maxStartWait is the longest retry interval for a container that is about to start.
	maxStartWait = time.Second
)

// startRequest records the start of a request.
func (st *stream) startRequest(cancel func()) time.Time {
	st.mu.Lock()
	defer st.mu.Unlock()
	now := st.s.cfg.Clock()
	st.openedAt, st.answered, st.ending, st.movedAt, st.sure = now, false, cancel, now, st.watermark
	return now
}

func (st *stream) endRequest() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.answered, st.ending = false, nil
}

// markOpen records that the log is open. This is so if a response arrived, or if the request
// was not refused within openAfter.
func (st *stream) markOpen(c container) {
	st.mu.Lock()
	st.answered, st.failing = st.ending != nil, time.Time{}
	st.mu.Unlock()
	s := st.s
	s.gates.open(keyCredentials, logsKey(c))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range []string{keyCredentials, logsKey(c), "logs"} {
		delete(s.problems, key)
	}
	s.problems.clear(nodeKey(c), c.key())
}

// markNotOpen withdraws markOpen, because the response was an error.
func (st *stream) markNotOpen() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.watermark = st.sure
}

// opensAfter returns the time after which a request without a response counts as open.
func (st *stream) opensAfter() time.Duration {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.failing.IsZero() {
		return openAfter
	}
	return reopenAfter
}

func nodeKey(c container) string { return "node " + c.node }

// handleOutcome records how a request ended. It returns the wait before the next request.
func (r *reader) handleOutcome(err error, c container, fresh int) time.Duration {
	s := r.st.s
	if err == nil || errors.Is(err, errReopen) || errors.Is(err, errIdle) || errors.Is(err, errBroken) {
		r.tries = 0
		r.st.markReadable()
		s.clearProblem(textKey(c), c)
	}
	switch {
	case errors.Is(err, errIdle):
		r.idle, r.reopened = min(2*r.idle, maxIdle), true
		return 0
	case errors.Is(err, errReopen):
		return 0
	case err == nil, errors.Is(err, errBroken):
		if err != nil {
			s.countError("cut")
		}
		if fresh > 0 {
			r.empty = 0
		}
		r.empty++
		return pause.Backoff(retryAfter, maxRetryWait, r.empty)
	}
	r.tries++
	return r.handleFailure(err, c)
}

// handleFailure handles a request that did not return a log. It returns the time to wait before
// the next one.
func (r *reader) handleFailure(err error, c container) time.Duration {
	s, now := r.st.s, r.st.s.cfg.Clock()
	r.st.markUnreadable(now, err.Error())
	r.st.markNotOpen()
	code := kube.StatusCode(err)
	wait := pause.Backoff(kube.FirstRetry, kube.SlowRetry, r.tries)
	switch {
	case code == http.StatusUnauthorized && r.tries == 1:
		s.countError("unauthorized")
		return kube.FirstRetry // the next request reads the credentials again
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		key, text := describeRefusal(err, logsKey(c))
		s.gates.close(key, now.Add(kube.SlowRetry))
		s.reportProblem(errorReason(err), key, c, text)
		return kube.SlowRetry
	}
	switch {
	case code == http.StatusBadRequest && c.phase == running: // the kubelet says that the container has not started, although the status says that it runs
		s.countError("not_started")
		wait = min(wait, maxStartWait)
	case errors.Is(err, errNotALog):
		s.reportProblem("text", textKey(c), c, fmt.Sprintf("the log of %s: %v", c.path(), err))
	case code == http.StatusTooManyRequests:
		s.countError("throttled")
		wait = max(wait, kube.RetryAfter(err))
	case code >= http.StatusInternalServerError:
		s.countError("server")
		if r.st.recordFailure(now) >= failingAfter {
			s.reportProblem("", nodeKey(c), c, fmt.Sprintf("logs of node %s cannot be read: %v", c.node, err))
		}
	case code == 0:
		s.countError("network")
		if r.st.recordFailure(now); r.tries >= 5 {
			s.reportProblem("", "logs", c, fmt.Sprintf("logs cannot be read: %v", err))
		}
	default:
		s.countError(errorReason(err))
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
	s.clearProblem(textKey(c), c)
	s.mu.Lock()
	s.countLoss("removed", c.path(), s.cfg.Clock())
	s.mu.Unlock()
	r.matchNewLines(&lines{}, func(p *position) { p.Done = p.ID == c.id })
}

// recordFailure records that the log cannot be opened. It returns how long this has lasted.
func (st *stream) recordFailure(now time.Time) time.Duration {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.failing.IsZero() {
		st.failing = now
	}
	return now.Sub(st.failing)
}

// textKey is the key of the problem that the kubelet sends a message instead of a log.
func textKey(c container) string { return "text of " + c.path() }

// reportProblem reports a problem, and counts a failure unless reason is "".
func (s *Source) reportProblem(reason, key string, c container, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reason != "" {
		s.errs[reason]++
	}
	s.problems.set(key, c.key(), text)
}

func (s *Source) clearProblem(key string, c container) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems.clear(key, c.key())
}
