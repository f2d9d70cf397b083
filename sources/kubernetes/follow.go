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
	keepSize = 64 << 10 // bytes of a block's memory that are reused

	// minIdle is how long a log that has lines may be idle before it is reopened:
	// kubelets have abandoned streams without closing them. The time grows with
	// the usual pause between lines, and while reopening finds nothing.
	minIdle = 30 * time.Second
	// minPending is the same for a request without an answer. It is longer than an API
	// server tries to reach a node.
	minPending = 40 * time.Second
	maxIdle    = 10 * time.Minute
	// maxLife is the maximum duration of one request.
	maxLife = 28 * time.Minute

	retryAfter       = 200 * time.Millisecond // after a log that ended
	maxRetryWait     = 5 * time.Second
	maxPreviousTries = 8 // when a kubelet fails
)

var (
	// errReopen ends a request that is to be repeated immediately.
	errReopen = errors.New("the log is reopened")
	// errIdle ends a request without new bytes for a long time.
	errIdle = errors.New("the log is idle")
	// errBroken reports a response that broke off.
	errBroken = errors.New("the response ended unexpectedly")
	// errNotALog reports a response that is not a log.
	errNotALog = errors.New("the kubelet sent a message instead")
)

// reader is the state of one run of a stream.
type reader struct {
	st    *stream
	tries int // consecutive failures
	empty int // consecutive responses without a new line
	buf   []byte

	began    time.Time     // start of the current request
	newest   time.Time     // when the latest new lines arrived
	gap      time.Duration // usual pause between new lines: the longest, with decay
	idle     time.Duration // until the log is reopened
	reopened bool          // because it was idle, and no new line has arrived since
}

// run reads until there is nothing to read for now, or until ctx ends.
func (st *stream) run(ctx context.Context) {
	defer st.stopped()
	r := &reader{st: st, idle: minIdle}
	for ctx.Err() == nil {
		st.mu.Lock()
		c, act := st.c, st.next()
		left := !st.leftAt.IsZero()
		st.mu.Unlock()
		var err error
		var fresh int
		switch act {
		case actNothing:
			return
		case actPrevious:
			if err = r.previous(ctx, c); err == nil {
				r.tries = 0
				continue
			}
		case actFollow:
			fresh, err = r.follow(ctx, c)
		}
		if ctx.Err() != nil || left && (err == nil || kube.Code(err) == http.StatusNotFound) {
			return
		}
		pause.Sleep(ctx, r.outcome(err, c, fresh), st.wake)
	}
}

func query(c container, since time.Time) url.Values {
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
		since, read = pos.since(), min(pos.Newest, pos.Last)
	}
	pos.connect(read)
	l := newLines(&pos.recent)
	l.live = true
	st.mu.Unlock()
	if r.unread(c) { // read a new instance from its start, whatever its clock says
		l.floor, l.atFloor = 0, 0
		if from := c.started.Add(-overlap); !c.started.IsZero() && from.Before(since) {
			since = from
		}
	}
	q := query(c, since)
	if c.phase == running {
		q.Set("follow", "true")
	}
	fresh, err = r.read(ctx, c, q, l)
	if err != nil || c.phase != ended {
		return fresh, err
	}
	l.end()
	fresh += len(l.fresh)
	r.take(l, func(p *position) {
		// The status said before the request that the instance had terminated. If
		// it names the same instance now, this was the whole log.
		p.Done = st.c.id == p.ID
	})
	return fresh, nil
}

// unread reports whether no line of the instance was read.
func (r *reader) unread(c container) bool {
	r.st.mu.Lock()
	defer r.st.mu.Unlock()
	return r.st.pos.Unread && r.st.pos.ID == c.id
}

// previous reads the rest of the previous instance, as far as the API has it, and
// switches to the new one.
func (r *reader) previous(ctx context.Context, c container) error {
	st := r.st
	st.mu.Lock()
	plan := st.pos.plan(c, st.from)
	l := newLines(&st.pos.recent)
	st.mu.Unlock()
	if plan.read {
		if plan.marked {
			l.floor, l.atFloor = 0, 0 // duplicates are better than losses
		}
		q := query(c, plan.since)
		q.Set("previous", "true")
		_, err := r.read(ctx, c, q, l)
		switch code := kube.Code(err); {
		case err == nil:
			l.end()
		case code == http.StatusBadRequest, code == http.StatusNotFound, errors.Is(err, errNotALog),
			code >= http.StatusInternalServerError && r.tries >= maxPreviousTries:
			if plan.missed++; plan.known {
				plan.missed--
			}
		default:
			return err
		}
	}
	r.take(l, func(p *position) {
		p.Unread = p.ID != ""
		p.ID, p.Restarts, p.Done, p.Conns = c.id, c.restarts, false, nil
		if plan.marked { // lines of the new instance that were read already will be repeated
			p.Conns = []conn{{From: plan.since.UnixNano(), First: 1}}
		}
	})
	if plan.missed > 0 {
		st.s.mu.Lock()
		for range plan.missed {
			st.s.miss("restarts", st.path, st.s.cfg.Clock())
		}
		st.s.mu.Unlock()
	}
	return nil
}

// plan is what to read of the previous instances.
type plan struct {
	read   bool
	since  time.Time
	marked bool // since is the point up to which the old instance was certainly read
	known  bool // nothing is lost if the previous instance is not available
	missed int  // instances, or remainders of one, that are no longer available
}

func (p *position) plan(c container, horizon time.Time) plan {
	if p.ID == "" {
		return plan{read: c.restarts > 0 && !c.before.IsZero() && !c.before.Before(horizon), since: horizon, known: true}
	}
	out := plan{read: true, since: horizon, known: p.Done && c.restarts-p.Restarts <= 1}
	if n := c.restarts - p.Restarts; n > 1 { // the API keeps only the last of them
		if out.missed = n - 2; !p.Done {
			out.missed++
		}
	}
	if p.Newest == 0 {
		return out
	}
	out.since = p.since()
	end := c.before
	if !c.started.IsZero() && c.started.Before(end) {
		end = c.started
	}
	if at, marked := p.mark(end); marked {
		out.marked, out.since = true, time.Unix(0, at).Add(-overlap)
	}
	return out
}

// read makes one request and processes the response. The end of the response is not
// an error.
func (r *reader) read(ctx context.Context, c container, q url.Values, l *lines) (fresh int, err error) {
	st := r.st
	if err := r.admit(ctx, c); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(max(r.idle, minPending), func() { cancel(errIdle) })
	defer idle.Stop()
	life := time.AfterFunc(pause.Jitter(maxLife), func() { cancel(errReopen) })
	defer life.Stop()
	opened := time.AfterFunc(st.opensAfter(), func() {
		st.opened(c)
		st.solved()
		st.s.solved(textOf(c), c) // a kubelet sends messages at once, and closes the response
	})
	defer opened.Stop()
	r.began = st.begin(func() { cancel(errReopen) })
	defer st.over()

	body, err := st.s.client.Logs(ctx, logPath(c), q)
	if err != nil {
		return 0, cause(ctx, err)
	}
	defer body.Close()
	st.opened(c)
	idle.Reset(r.idle)
	opened.Reset(openAfter)
	if r.buf == nil {
		r.buf = make([]byte, readSize)
	}
	for {
		n, err := body.Read(r.buf)
		if n > 0 {
			l.add(r.buf[:n])
			r.moved(l)
			if fresh += len(l.fresh); fresh > 0 {
				st.solved()
			}
			r.take(l, nil)
			idle.Reset(max(r.idle, min(3*r.gap, maxIdle)))
		}
		if err == nil {
			continue
		}
		if ctx.Err() != nil || !errors.Is(err, io.EOF) {
			return fresh, cause(ctx, fmt.Errorf("%w: %w", errBroken, err))
		}
		if l.finishAnswer(); l.strays > 0 {
			return fresh, fmt.Errorf("%w: %q", errNotALog, l.stray)
		}
		return fresh, nil
	}
}

// cause distinguishes a request that this program ended from one that failed.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// admit waits until the log may be opened.
func (r *reader) admit(ctx context.Context, c container) error {
	s := r.st.s
	for {
		now := s.cfg.Clock()
		d := s.gates.wait(now, keyCredentials, logsOf(c))
		if d == 0 {
			return s.opens.Wait(ctx)
		}
		r.st.stall(now, "it waits until a request that was refused succeeds")
		if !pause.Sleep(ctx, pause.Jitter(d), nil) {
			return ctx.Err()
		}
	}
}

// logsOf is the key of the gate and the problem for the logs of a namespace.
func logsOf(c container) string { return "logs of " + c.pod.namespace }

// take matches the new lines and moves the position.
func (r *reader) take(l *lines, more func(*position)) {
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
	stream := st.matched()
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

// matched returns the stream for the matcher. A new image gets a new stream.
func (st *stream) matched() *matcher.Stream {
	labels := st.allLabels()
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.stream != nil && st.stream.Labels()["image"] == labels["image"] {
		return st.stream
	}
	st.before, st.counted = sum(st.before, st.counted), matcher.Counters{}
	st.stream = matcher.NewStream(labels, matcher.StreamOptions{Format: matcher.FormatCRI, Join: matcher.JoinBlock, IgnoreLabels: ignored})
	return st.stream
}

// ignored are the labels that other sources of the same lines lack.
var ignored = slices.Concat(matcher.DefaultIgnoreLabels, podLabels[3:])

// moved records that bytes arrived, and adapts to the pauses between new lines. If
// the first new line is older than the request, the previous request had stalled.
func (r *reader) moved(l *lines) {
	st := r.st
	now := st.s.cfg.Clock()
	st.mu.Lock()
	st.movedAt = now
	st.mu.Unlock()
	if len(l.fresh) == 0 {
		return
	}
	if r.reopened && l.fresh[0].at < r.began.Add(-overlap).UnixNano() {
		st.s.count("stall")
	}
	if !r.newest.IsZero() {
		r.gap = max(now.Sub(r.newest), r.gap-r.gap/16)
	}
	r.newest, r.idle, r.reopened = now, minIdle, false
}
