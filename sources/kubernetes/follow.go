package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"crowsnest/internal/kube"
	"crowsnest/internal/pause"
	"crowsnest/matcher"
)

const (
	readSize = 16 << 10
	keepSize = 64 << 10 // largest size of a buffer that is reused for blocks, in bytes

	// minIdle is the shortest time without new lines after which a log that had lines is requested again. Kubelets have
	// been seen to abandon streams without closing them. The time is longer for a log with long pauses between lines,
	// and grows whenever a new request yields no lines.
	minIdle = 30 * time.Second
	// minPending is the shortest time after which a request without a response is repeated. It
	// is longer than the time for which an API server tries to reach a node.
	minPending = 40 * time.Second
	maxIdle    = 10 * time.Minute
	maxLife    = 28 * time.Minute // longest duration of one request

	retryAfter       = 200 * time.Millisecond // delay before a log that ended is requested again
	maxRetryWait     = 5 * time.Second
	maxPreviousTries = 8 // largest number of tries to read a previous instance while the kubelet fails
)

var (
	// errReopen is the error of a request that was ended because it must be repeated immediately.
	errReopen = errors.New("the log is reopened")
	// errIdle is the error of a request that was ended because no bytes arrived for a long time.
	errIdle = errors.New("the log is idle")
	// errBroken is the error of a response that ended before it was complete.
	errBroken = errors.New("the response ended unexpectedly")
	// errNotALog is the error of a response that contains a message of the kubelet instead of a log.
	errNotALog = errors.New("the kubelet sent a message instead")
)

type reader struct {
	st    *stream
	tries int // number of consecutive failures
	empty int // number of consecutive responses without new lines
	buf   []byte

	began    time.Time     // start of the current request
	newest   time.Time     // time at which new lines last arrived
	gap      time.Duration // usual pause between new lines, which is the longest pause, decaying over time
	idle     time.Duration // time without bytes after which the log is requested again
	reopened bool          // whether the log was requested again because it was idle, and no new line has arrived since
}

// run reads until there is nothing left to read for now, or until ctx ends.
func (st *stream) run(ctx context.Context) {
	defer st.finishRun()
	r := &reader{st: st, idle: minIdle}
	for ctx.Err() == nil {
		st.mu.Lock()
		c, act := st.c, st.nextAction()
		left := !st.leftAt.IsZero()
		st.mu.Unlock()
		var err error
		var fresh int
		switch act {
		case actNothing:
			return
		case actPrevious:
			if err = r.readPrevious(ctx, c); err == nil {
				r.tries = 0
				continue
			}
		case actFollow:
			fresh, err = r.follow(ctx, c)
		}
		if ctx.Err() != nil || left && (err == nil || kube.StatusCode(err) == http.StatusNotFound) {
			return
		}
		pause.Sleep(ctx, r.handleOutcome(err, c, fresh), st.wake)
	}
}

func logQuery(c container, since time.Time) url.Values {
	q := url.Values{"container": {c.name}, "timestamps": {"true"}}
	if !since.IsZero() {
		q.Set("sinceTime", since.UTC().Format(time.RFC3339))
	}
	return q
}

func logPath(c container) string {
	return "/api/v1/namespaces/" + c.pod.namespace + "/pods/" + c.pod.name + "/log"
}

// follow reads the current instance until its log ends. It returns the number of new lines.
func (r *reader) follow(ctx context.Context, c container) (fresh int, err error) {
	st := r.st
	st.mu.Lock()
	pos := &st.pos
	since, read := st.from, st.from.UnixNano()
	if pos.Newest != 0 {
		since, read = pos.resumeTime(), min(pos.Newest, pos.Last)
	}
	pos.connect(read)
	l := newLines(&pos.logProgress)
	l.live = true
	unread := pos.Unread && pos.ID == c.id
	st.mu.Unlock()
	if unread { // read a new instance from its start, even if its times are older
		l.floor, l.atFloor = 0, 0
		if from := c.started.Add(-overlap); !c.started.IsZero() && from.Before(since) {
			since = from
		}
	}
	q := logQuery(c, since)
	if c.phase == running {
		q.Set("follow", "true")
	}
	fresh, err = r.request(ctx, c, q, l)
	if err != nil || c.phase != ended {
		return fresh, err
	}
	l.endLine()
	fresh += len(l.fresh)
	r.matchNewLines(l, func(p *position) {
		// The status was read before the request, and said that the instance had terminated.
		// If the status still names the same instance, its whole log was read.
		p.Done = st.c.id == p.ID
	})
	return fresh, nil
}

// readPrevious reads the rest of the previous instance, if it exists, and switches to the new one.
func (r *reader) readPrevious(ctx context.Context, c container) error {
	st := r.st
	st.mu.Lock()
	plan := st.pos.planRequest(c, st.from)
	l := newLines(&st.pos.logProgress)
	st.mu.Unlock()
	if plan.read {
		if plan.marked {
			l.floor, l.atFloor = 0, 0 // forget the floor, because reading lines twice is better than losing them
		}
		q := logQuery(c, plan.since)
		q.Set("previous", "true")
		_, err := r.request(ctx, c, q, l)
		switch code := kube.StatusCode(err); {
		case err == nil:
			l.endLine()
		case code == http.StatusBadRequest, code == http.StatusNotFound, errors.Is(err, errNotALog),
			code >= http.StatusInternalServerError && r.tries >= maxPreviousTries:
			if !plan.known {
				plan.missed++
			}
		default:
			return err
		}
	}
	r.matchNewLines(l, func(p *position) {
		p.Unread = p.ID != ""
		p.ID, p.Restarts, p.Done, p.Conns = c.id, c.restarts, false, nil
		if plan.marked { // lines of the new instance may have been read already, and are read again
			p.Conns = []conn{{From: plan.since.UnixNano(), First: 1}}
		}
	})
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	for range plan.missed {
		st.s.countLoss("restarts", st.path, st.s.cfg.Clock())
	}
	return nil
}

// plan describes which part of the previous instances must be read.
type plan struct {
	read   bool
	since  time.Time
	marked bool // whether all lines before since certainly belong to the old instance
	known  bool // whether no line is lost if the API no longer has the previous instance
	missed int  // number of instances of which at least a part is no longer available
}

func (p *position) planRequest(c container, horizon time.Time) plan {
	if p.ID == "" {
		return plan{read: c.restarts > 0 && !c.previousEnd.IsZero() && !c.previousEnd.Before(horizon), since: horizon, known: true}
	}
	out := plan{read: true, since: horizon, known: p.Done && c.restarts-p.Restarts <= 1}
	if n := c.restarts - p.Restarts; n > 1 { // the API keeps only one previous instance
		if out.missed = n - 2; !p.Done {
			out.missed++
		}
	}
	if p.Newest == 0 {
		return out
	}
	out.since = p.resumeTime()
	end := c.previousEnd
	if !c.started.IsZero() && c.started.Before(end) {
		end = c.started
	}
	if at, marked := p.markEnd(end); marked {
		out.marked, out.since = true, time.Unix(0, at).Add(-overlap)
	}
	return out
}

// request makes one request and processes the response. The end of a response is not an error.
func (r *reader) request(ctx context.Context, c container, q url.Values, l *lines) (fresh int, err error) {
	st := r.st
	if err := r.waitForAdmission(ctx, c); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(max(r.idle, minPending), func() { cancel(errIdle) })
	defer idle.Stop()
	life := time.AfterFunc(pause.Jitter(maxLife), func() { cancel(errReopen) })
	defer life.Stop()
	r.began = st.s.cfg.Clock()
	st.mu.Lock()
	st.openedAt, st.answered, st.movedAt, st.sure = r.began, false, r.began, st.watermark
	st.ending = func() { cancel(errReopen) }
	opensAfter := openAfter
	if !st.failing.IsZero() {
		opensAfter = reopenAfter
	}
	st.mu.Unlock()
	opened := time.AfterFunc(opensAfter, func() {
		st.markOpen(c)
		st.markReadable()
		// The response is a log, because a kubelet sends a message immediately and closes the response.
		st.s.clearProblem(textKey(c), c)
	})
	defer func() {
		opened.Stop()
		st.mu.Lock()
		defer st.mu.Unlock()
		st.answered, st.ending = false, nil
	}()

	body, err := st.s.client.OpenLog(ctx, logPath(c), q)
	if err != nil {
		return 0, requestError(ctx, err)
	}
	defer body.Close()
	st.markOpen(c)
	idle.Reset(r.idle)
	opened.Reset(openAfter)
	if r.buf == nil {
		r.buf = make([]byte, readSize)
	}
	for {
		n, err := body.Read(r.buf)
		if n > 0 {
			l.addBytes(r.buf[:n])
			r.adaptPause(l)
			if fresh += len(l.fresh); fresh > 0 {
				st.markReadable()
			}
			r.matchNewLines(l, nil)
			idle.Reset(max(r.idle, min(3*r.gap, maxIdle)))
		}
		if err == nil {
			continue
		}
		if ctx.Err() != nil || !errors.Is(err, io.EOF) {
			return fresh, requestError(ctx, fmt.Errorf("%w: %w", errBroken, err))
		}
		if l.finishAnswer(); l.strays > 0 {
			return fresh, fmt.Errorf("%w: %q", errNotALog, l.stray)
		}
		return fresh, nil
	}
}

// requestError returns the reason if this program itself ended the request. Otherwise it returns err.
func requestError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (r *reader) waitForAdmission(ctx context.Context, c container) error {
	s := r.st.s
	for {
		now := s.cfg.Clock()
		d := s.gates.wait(now, keyCredentials, logsKey(c))
		if d == 0 {
			return s.opens.Wait(ctx)
		}
		r.st.markUnreadable(now, "it waits until a request that was refused succeeds")
		if !pause.Sleep(ctx, pause.Jitter(d), nil) {
			return ctx.Err()
		}
	}
}

// logsKey returns the key of gates and problems that concern the logs of a namespace.
func logsKey(c container) string { return "logs of " + c.pod.namespace }

// matchNewLines matches the new lines and moves the position in the same checkpoint. more
// changes further fields of the position.
func (r *reader) matchNewLines(l *lines, more func(*position)) {
	st := r.st
	if len(l.fresh) == 0 && more == nil {
		return
	}
	if l.cut > 0 {
		st.s.mu.Lock()
		st.s.lost["long_line"] += l.cut
		st.s.mu.Unlock()
		l.cut = 0
	}
	stream := st.matcherStream()
	now := st.s.cfg.Clock()
	st.s.pipe.Scan(stream, l.block, func() {
		st.mu.Lock()
		defer st.mu.Unlock()
		for _, line := range l.fresh {
			st.pos.add(line)
			if l.live {
				st.pos.extendConn(line.at)
			}
		}
		if len(l.fresh) > 0 {
			st.pos.Unread, st.lastRead = false, now
		}
		st.counted = stream.Counters()
		if more != nil {
			more(&st.pos)
		}
	})
	if l.block, l.fresh = l.block[:0], l.fresh[:0]; cap(l.block) > keepSize {
		l.block, l.fresh = nil, nil
	}
}

// matcherStream returns the matcher's stream of the log. It creates a new one when the image of the container changes.
func (st *stream) matcherStream() *matcher.Stream {
	labels := st.allLabels()
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.stream != nil && st.stream.Labels()["image"] == labels["image"] {
		return st.stream
	}
	st.earlierCounters, st.counted = st.sumCounters(), matcher.Counters{}
	st.stream = matcher.NewStream(labels, matcher.StreamOptions{Format: matcher.FormatCRI, Join: matcher.JoinBlock, IgnoreLabels: ignored})
	return st.stream
}

// ignored are the labels that do not count for a line's fingerprint, because other sources with the same lines do not
// have these labels.
var ignored = slices.Concat(matcher.DefaultIgnoreLabels, podLabels[3:])

// adaptPause adapts r.gap to the pauses between new lines. If the first new line is older than the
// request, the previous request had stalled, and the pause before the line does not count.
func (r *reader) adaptPause(l *lines) {
	st := r.st
	now := st.s.cfg.Clock()
	st.mu.Lock()
	st.movedAt = now
	st.mu.Unlock()
	if len(l.fresh) == 0 {
		return
	}
	if r.reopened && l.fresh[0].at < r.began.Add(-overlap).UnixNano() {
		st.s.countError("stall")
	}
	if !r.newest.IsZero() {
		r.gap = max(now.Sub(r.newest), r.gap-r.gap/16)
	}
	r.newest, r.idle, r.reopened = now, minIdle, false
}

const (
	failingAfter = 10 * time.Second // time after which unreadable logs of a node are reported
	lostAfter    = 8                // number of failed requests after which the log of a terminated instance counts as lost
	maxStartWait = time.Second      // longest retry interval for a container that is about to start
)

// markOpen records that the log is open, because a response arrived or no refusal came within openAfter.
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

// handleFailure handles a request that returned no log. It returns the wait before the next request.
func (r *reader) handleFailure(err error, c container) time.Duration {
	s, now := r.st.s, r.st.s.cfg.Clock()
	r.st.markUnreadable(now, err.Error())
	r.st.mu.Lock()
	r.st.watermark = r.st.sure // markOpen may have been wrong, so its effect is undone
	r.st.mu.Unlock()
	code := kube.StatusCode(err)
	wait := pause.Backoff(kube.FirstRetry, kube.SlowRetry, r.tries)
	switch {
	case code == http.StatusUnauthorized && r.tries == 1:
		s.countError("unauthorized")
		return kube.FirstRetry // the next request reads the credentials again, so it can be made soon
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

func (r *reader) loseInstance(c container) {
	s := r.st.s
	s.clearProblem(textKey(c), c)
	s.mu.Lock()
	s.countLoss("removed", c.path(), s.cfg.Clock())
	s.mu.Unlock()
	r.matchNewLines(&lines{}, func(p *position) { p.Done = p.ID == c.id })
}

// recordFailure records that the log cannot be opened. It returns the time since the first such failure.
func (st *stream) recordFailure(now time.Time) time.Duration {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.failing.IsZero() {
		st.failing = now
	}
	return now.Sub(st.failing)
}

// textKey returns the key of the problem that the kubelet sends a message instead of a log.
func textKey(c container) string { return "text of " + c.path() }

// reportProblem reports a problem. If reason is not empty, it also counts a failure.
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
