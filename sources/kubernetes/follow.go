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

	"crowsnest/internal/pause"
	"crowsnest/kube"
	"crowsnest/matcher"
)

const (
	readSize = 16 << 10
	keepSize = 64 << 10 // largest buffer for a block that is reused, in bytes

	// minIdle is the shortest time after which a log that has lines and becomes idle is opened
	// again. Kubelets have been seen to abandon streams without closing them. The time grows
	// with the usual pause between lines, and whenever opening again yields no lines.
	minIdle = 30 * time.Second
	// minPending is the shortest time after which a request without a response is repeated. It
	// is longer than an API server tries to reach a node.
	minPending = 40 * time.Second
	maxIdle    = 10 * time.Minute
	// maxLife is the longest duration of one request.
	maxLife = 28 * time.Minute

	retryAfter       = 200 * time.Millisecond // delay before a log that ended is requested again
	maxRetryWait     = 5 * time.Second
	maxPreviousTries = 8 // number of tries while the kubelet fails
)

var (
	// errReopen ends a request that is to be repeated immediately.
	errReopen = errors.New("the log is reopened")
	// errIdle ends a request that has brought no bytes for a long time.
	errIdle = errors.New("the log is idle")
	// errBroken is the error of a response that broke off.
	errBroken = errors.New("the response ended unexpectedly")
	// errNotALog is the error of a response that is not a log.
	errNotALog = errors.New("the kubelet sent a message instead")
)

// reader is the state of one run of a stream.
type reader struct {
	st    *stream
	tries int // number of consecutive failures
	empty int // number of consecutive responses without new lines
	buf   []byte

	began    time.Time     // start of the current request
	newest   time.Time     // time at which the newest new lines arrived
	gap      time.Duration // usual pause between new lines; the longest pause, which decays
	idle     time.Duration // time without bytes after which the log is opened again
	reopened bool          // whether the log was opened again because it was idle, and no new line has arrived since
}

// run reads until there is nothing to read at the moment or until ctx ends.
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

// follow reads the current instance until its log ends. It returns the number of
// new lines.
func (r *reader) follow(ctx context.Context, c container) (fresh int, err error) {
	st := r.st
	st.mu.Lock()
	pos := &st.pos
	since, read := st.from, st.from.UnixNano()
	if pos.Newest != 0 {
		since, read = pos.resumeTime(), min(pos.Newest, pos.Last)
	}
	pos.connect(read)
	l := newLines(&pos.recent)
	l.live = true
	st.mu.Unlock()
	if r.isUnread(c) { // read a new instance from its start, whatever its times are
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
		// The status said before the request that the instance had terminated. If it still
		// names the same instance, the whole log was read.
		p.Done = st.c.id == p.ID
	})
	return fresh, nil
}

// isUnread reports whether no line of the container's instance was read yet.
func (r *reader) isUnread(c container) bool {
	r.st.mu.Lock()
	defer r.st.mu.Unlock()
	return r.st.pos.Unread && r.st.pos.ID == c.id
}

// readPrevious reads the rest of the previous instance, if the API still has it, and switches
// to the new instance.
func (r *reader) readPrevious(ctx context.Context, c container) error {
	st := r.st
	st.mu.Lock()
	plan := st.pos.planRequest(c, st.from)
	l := newLines(&st.pos.recent)
	st.mu.Unlock()
	if plan.read {
		if plan.marked {
			l.floor, l.atFloor = 0, 0 // reading lines twice is better than losing them
		}
		q := logQuery(c, plan.since)
		q.Set("previous", "true")
		_, err := r.request(ctx, c, q, l)
		switch code := kube.StatusCode(err); {
		case err == nil:
			l.endLine()
		case code == http.StatusBadRequest, code == http.StatusNotFound, errors.Is(err, errNotALog),
			code >= http.StatusInternalServerError && r.tries >= maxPreviousTries:
			if plan.missed++; plan.known {
				plan.missed--
			}
		default:
			return err
		}
	}
	r.matchNewLines(l, func(p *position) {
		p.Unread = p.ID != ""
		p.ID, p.Restarts, p.Done, p.Conns = c.id, c.restarts, false, nil
		if plan.marked { // the lines of the new instance that were already read will be read again
			p.Conns = []conn{{From: plan.since.UnixNano(), First: 1}}
		}
	})
	if plan.missed > 0 {
		st.s.mu.Lock()
		for range plan.missed {
			st.s.countLoss("restarts", st.path, st.s.cfg.Clock())
		}
		st.s.mu.Unlock()
	}
	return nil
}

// plan describes what to read of the previous instances.
type plan struct {
	read   bool
	since  time.Time
	marked bool // whether since is a point up to which the lines certainly belong to the old instance
	known  bool // whether nothing is lost if the previous instance is not available
	missed int  // number of instances, or rests of an instance, that are no longer available
}

func (p *position) planRequest(c container, horizon time.Time) plan {
	if p.ID == "" {
		return plan{read: c.restarts > 0 && !c.before.IsZero() && !c.before.Before(horizon), since: horizon, known: true}
	}
	out := plan{read: true, since: horizon, known: p.Done && c.restarts-p.Restarts <= 1}
	if n := c.restarts - p.Restarts; n > 1 { // the API keeps only the last one
		if out.missed = n - 2; !p.Done {
			out.missed++
		}
	}
	if p.Newest == 0 {
		return out
	}
	out.since = p.resumeTime()
	end := c.before
	if !c.started.IsZero() && c.started.Before(end) {
		end = c.started
	}
	if at, marked := p.markEnd(end); marked {
		out.marked, out.since = true, time.Unix(0, at).Add(-overlap)
	}
	return out
}

// request makes one request and processes the response. A response that ends is not an error.
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
	opened := time.AfterFunc(st.opensAfter(), func() {
		st.markOpen(c)
		st.markReadable()
		st.s.clearProblem(textKey(c), c) // a kubelet sends messages immediately and closes the response
	})
	defer opened.Stop()
	r.began = st.startRequest(func() { cancel(errReopen) })
	defer st.endRequest()

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

// requestError returns the reason for which this program ended a request, or the error of a
// request that failed.
func requestError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// waitForAdmission waits until the log of c may be opened.
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

// logsKey is the key for the logs of a namespace. The gates and the problems use it.
func logsKey(c container) string { return "logs of " + c.pod.namespace }

// matchNewLines matches the new lines and moves the position. more makes further changes of the
// position.
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

// matcherStream returns the matcher's stream. When the image of the container changes, a new
// stream is created.
func (st *stream) matcherStream() *matcher.Stream {
	labels := st.allLabels()
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.stream != nil && st.stream.Labels()["image"] == labels["image"] {
		return st.stream
	}
	st.before, st.counted = addCounters(st.before, st.counted), matcher.Counters{}
	st.stream = matcher.NewStream(labels, matcher.StreamOptions{Format: matcher.FormatCRI, Join: matcher.JoinBlock, IgnoreLabels: ignored})
	return st.stream
}

// ignored are the labels that streams of other sources with the same lines do not have.
var ignored = slices.Concat(matcher.DefaultIgnoreLabels, podLabels[3:])

// adaptPause records that bytes arrived, and adapts r.gap to the pauses between new lines. If
// the first new line is older than the request, the previous request had stalled, and the pause
// before the line does not count.
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
