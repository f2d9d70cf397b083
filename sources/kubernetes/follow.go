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

	"crowsnest/matcher"
	"crowsnest/sources/internal/kube"
)

const (
	readSize = 16 << 10
	keepSize = 64 << 10 // of a block's memory, while nothing comes

	// leastQuiet is how long a log that has lines may be quiet until it is opened
	// anew: kubelets have left streams without saying so. It grows with the usual
	// pause, and while opening anew brings nothing.
	leastQuiet = 30 * time.Second
	mostQuiet  = 10 * time.Minute
	// maxLife is how long a log stays open at most.
	maxLife = 28 * time.Minute

	againAfter   = 200 * time.Millisecond // a log that ended
	againMost    = 5 * time.Second
	previousMost = 8 // tries, when a kubelet fails
)

var (
	// errAgain ends a request that is to be made anew at once.
	errAgain = errors.New("the log is opened anew")
	// errQuiet ends one of which nothing came for long.
	errQuiet = errors.New("the log is quiet")
	// errCut is a log that broke off.
	errCut = errors.New("the log broke off")
	// errText is an answer that is no log.
	errText = errors.New("the kubelet answers")
)

// reader is the state of one run of a stream.
type reader struct {
	st    *stream
	tries int // failures in a row
	empty int // ends in a row without a new line
	buf   []byte

	began    time.Time     // of the newest request
	newest   time.Time     // when new lines came last
	gap      time.Duration // the usual pause between them: the longest, slowly forgotten
	quiet    time.Duration // until the log is opened anew
	reopened bool          // it was, because of that, and nothing new came since
}

// run reads until there is nothing to read for now, or ctx ends.
func (st *stream) run(ctx context.Context) {
	defer st.stopped()
	r := &reader{st: st, quiet: leastQuiet}
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
		sleep(ctx, r.outcome(err, c, fresh), st.wake)
	}
}

// query is what every request has.
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

// follow reads the instance that runs, or one that ended, until its log ends. It
// returns the number of new lines.
func (r *reader) follow(ctx context.Context, c container) (fresh int, err error) {
	st := r.st
	st.mu.Lock()
	pos := &st.pos
	since, read := st.from, st.from.UnixNano()
	if pos.newest != 0 {
		since, read = pos.since(), min(pos.newest, pos.last)
	}
	pos.connect(read)
	l := newLines(&pos.recent)
	l.live = true
	st.mu.Unlock()
	if r.unread(c) { // the whole of a new instance, whatever its clock says
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
		// The status said before the request that the instance had ended. If it
		// says the same now, this was all of it.
		p.done = st.c.id == p.id
	})
	return fresh, nil
}

// unread tells whether nothing of the instance was read.
func (r *reader) unread(c container) bool {
	r.st.mu.Lock()
	defer r.st.mu.Unlock()
	return r.st.pos.unread && r.st.pos.id == c.id
}

// previous reads what is left of the instance before, as far as the API has it,
// and goes over to the new one.
func (r *reader) previous(ctx context.Context, c container) error {
	st := r.st
	st.mu.Lock()
	plan := st.pos.plan(c, st.from)
	l := newLines(&st.pos.recent)
	st.mu.Unlock()
	if plan.read {
		if plan.marked {
			l.floor, l.atFloor = 0, 0 // rather twice than never
		}
		q := query(c, plan.since)
		q.Set("previous", "true")
		_, err := r.read(ctx, c, q, l)
		switch code := kube.Code(err); {
		case err == nil:
			l.end()
		case code == http.StatusBadRequest, code == http.StatusNotFound, errors.Is(err, errText),
			code >= http.StatusInternalServerError && r.tries >= previousMost:
			if plan.missed++; plan.known {
				plan.missed--
			}
		default:
			return err
		}
	}
	r.take(l, func(p *position) {
		p.unread = p.id != ""
		p.id, p.restarts, p.done, p.conns = c.id, c.restarts, false, nil
		if plan.marked { // what was read of the new instance will be there again
			p.conns = []conn{{From: plan.since.UnixNano(), First: 1}}
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

// plan is what to read of the instances before the newest one.
type plan struct {
	read   bool
	since  time.Time
	marked bool // from where it was sure to be the old instance
	known  bool // nothing is missed if it cannot be had
	missed int  // instances, or the rest of one, that nobody has any more
}

func (p *position) plan(c container, horizon time.Time) plan {
	if p.id == "" {
		return plan{read: c.restarts > 0 && !c.before.IsZero() && !c.before.Before(horizon), since: horizon, known: true}
	}
	out := plan{read: true, since: horizon, known: p.done && c.restarts-p.restarts <= 1}
	if n := c.restarts - p.restarts; n > 1 { // the API has only the last one of them
		if out.missed = n - 2; !p.done {
			out.missed++
		}
	}
	if p.newest == 0 {
		return out
	}
	out.since = p.recent.since()
	end := c.before
	if !c.started.IsZero() && c.started.Before(end) {
		end = c.started
	}
	if at, marked := p.mark(end); marked {
		out.marked, out.since = true, time.Unix(0, at).Add(-overlap)
	}
	return out
}

// read makes one request and takes what it returns. Its end is no error.
func (r *reader) read(ctx context.Context, c container, q url.Values, l *lines) (fresh int, err error) {
	st := r.st
	if err := r.admit(ctx, c); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(r.quiet, func() { cancel(errQuiet) })
	defer quiet.Stop()
	life := time.AfterFunc(jitter(maxLife), func() { cancel(errAgain) })
	defer life.Stop()
	opened := time.AfterFunc(openAfter, func() {
		st.opened(c)
		st.s.solved(textOf(c), c) // words of the kubelet come at once, and end the answer
	})
	defer opened.Stop()
	r.began = st.begin(func() { cancel(errAgain) })
	defer st.over()

	body, err := st.s.client.Logs(ctx, logPath(c), q)
	if err != nil {
		return 0, cause(ctx, err)
	}
	defer body.Close()
	st.opened(c)
	if r.buf == nil {
		r.buf = make([]byte, readSize)
	}
	for {
		n, err := body.Read(r.buf)
		if n > 0 {
			l.add(r.buf[:n])
			r.moved(l)
			fresh += len(l.fresh)
			r.take(l, nil)
			quiet.Reset(max(r.quiet, min(3*r.gap, mostQuiet)))
		}
		if err == nil {
			continue
		}
		if ctx.Err() != nil || !errors.Is(err, io.EOF) {
			return fresh, cause(ctx, fmt.Errorf("%w: %w", errCut, err))
		}
		if l.talk(); l.strays > 0 {
			return fresh, fmt.Errorf("%w: %q", errText, l.stray)
		}
		return fresh, nil
	}
}

// cause tells a request that was ended by us from one that failed.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// admit waits until a log may be opened.
func (r *reader) admit(ctx context.Context, c container) error {
	s := r.st.s
	for {
		d := s.gates.wait(s.cfg.Clock(), keyCredentials, logsOf(c))
		if d == 0 {
			return s.opens.Wait(ctx)
		}
		sleep(ctx, jitter(d), nil)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// logsOf is the key of what keeps the logs of a namespace from being read.
func logsOf(c container) string { return "logs of " + c.pod.namespace }

// take matches the new lines and moves the position with them.
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
				st.pos.took(line.at)
			}
		}
		if len(l.fresh) > 0 {
			st.pos.unread, st.lastRead = false, now
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

// matched returns the stream for the matcher. A new image makes a new one.
func (st *stream) matched() *matcher.Stream {
	labels := st.allLabels()
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.stream != nil && st.stream.Labels()["image"] == labels["image"] {
		return st.stream
	}
	st.before, st.counted = sum(st.before, st.counted), matcher.Counters{}
	st.stream = matcher.NewStream(labels, matcher.StreamOptions{Format: matcher.FormatCRI, IgnoreLabels: ignored})
	return st.stream
}

// ignored are the labels that other sources of the same lines do not have.
var ignored = slices.Concat(matcher.DefaultIgnoreLabels, own[3:])

// moved notes that bytes came, and what new lines tell of the pauses between
// them. A first new line that is older than the request was there while the log
// before it was quiet.
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
	r.newest, r.quiet, r.reopened = now, leastQuiet, false
}
