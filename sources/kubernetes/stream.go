package kubernetes

import (
	"context"
	"maps"
	"sync"
	"time"

	"crowsnest/matcher"
	"crowsnest/sources"
)

const (
	// endGrace is how long a request may continue after the status says that its
	// instance has terminated.
	endGrace = 5 * time.Second
	// sureAfter is how long after a log was opened it certainly belongs to the
	// instance that the status still names.
	sureAfter = 10 * time.Second
	// openAfter is when a pending request counts as open: without new lines, the
	// API does not even send headers. After a failure it is reopenAfter: the API server
	// takes half a minute to find out that a node does not answer.
	openAfter   = 3 * time.Second
	reopenAfter = 45 * time.Second
	// idleAfter is how long no bytes arrive from a log that was read to its end.
	idleAfter = 500 * time.Millisecond
)

// stream is the log of one container, across its restarts. A goroutine of its own
// reads it.
type stream struct {
	s    *Source
	key  string
	path string
	name podName
	wake chan struct{} // capacity 1: the status changed in a relevant way
	from time.Time     // without a position, older lines are not read

	// Guarded by s.mu.
	chosen, wanted bool

	mu       sync.Mutex
	c        container // current state according to the API
	pos      position
	running  bool
	cancel   context.CancelFunc // ends run
	ending   func()             // ends the request in progress; nil if there is none
	leftAt   time.Time          // when the pod was deleted or deselected; zero if it was neither
	stream   *matcher.Stream
	counted  matcher.Counters // counters of the stream
	before   matcher.Counters // counters of the stream's predecessors
	lastRead time.Time

	// For the watermark.
	firstSeen time.Time
	watermark time.Time // while no request is open
	sure      time.Time // watermark when the newest request began
	openedAt  time.Time // start of the request in progress
	answered  bool      // the request counts as open
	movedAt   time.Time // when bytes last arrived
	failing   time.Time // time since which opening fails because of the network, the server or the node; zero if it does not
	stalled   struct {  // zero if the last request succeeded
		since time.Time
		why   string
	}
}

func newStream(s *Source, c container, now time.Time) *stream {
	st := &stream{s: s, key: c.key(), path: c.path(), name: c.pod, wake: make(chan struct{}, 1), c: c}
	if s.opened { // before that, there is no watermark
		st.firstSeen = now
	} else { // read what was written since the start, however long opening takes
		now = s.began
	}
	st.from = now.Add(-s.cfg.LookBack)
	return st
}

// update stores what the API reports. It returns whether the change is relevant.
func (st *stream) update(c container) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	old := st.c
	st.c = c
	if !maps.Equal(old.labels, c.labels) {
		st.chosen = false
	}
	changed := old.id != c.id || old.phase != c.phase || !st.chosen
	over := c.id != st.pos.ID || c.phase == ended
	if changed && over && st.ending != nil {
		// The open request reads a finished instance. It ends by itself, unless it
		// already reads the next instance.
		time.AfterFunc(endGrace, st.ending)
	}
	if changed {
		select {
		case st.wake <- struct{}{}:
		default:
		}
	}
	return changed
}

// leave is called when the pod was deleted or is no longer selected. It reports
// whether this is the first call.
func (st *stream) leave(now time.Time) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.leftAt.IsZero() {
		return false
	}
	st.leftAt = now
	return true
}

// want records whether a rule selects the stream. The caller holds s.mu.
func (st *stream) want(wanted bool) {
	st.chosen = true
	if st.wanted == wanted {
		return
	}
	st.wanted = wanted
	st.mu.Lock()
	defer st.mu.Unlock()
	if !wanted && st.cancel != nil {
		st.cancel()
	}
}

func (st *stream) allLabels() matcher.Labels {
	st.mu.Lock()
	defer st.mu.Unlock()
	l := maps.Clone(st.c.labels)
	maps.Copy(l, st.s.cfg.Labels)
	return l
}

// pollResult is what reconcile has to do for a stream.
type pollResult int

const (
	pollNothing pollResult = iota
	pollStart              // start reading
	pollForget             // remove the stream
)

// poll returns what reconcile has to do. The caller holds s.mu.
func (st *stream) poll(now, lastEvent time.Time) pollResult {
	st.mu.Lock()
	defer st.mu.Unlock()
	podDeleted := !st.leftAt.IsZero()
	switch {
	case podDeleted && !st.running:
		return pollForget
	case podDeleted && now.Sub(st.leftAt) >= drainFor:
		st.cancel()
	case st.running:
		if st.answered && st.c.id == st.pos.ID && st.c.phase == running && lastEvent.Sub(st.openedAt) >= sureAfter {
			st.pos.Conns = nil // everything read since belongs to this instance
		}
	case st.wanted && st.next() != actNothing:
		return pollStart
	}
	return pollNothing
}

// rank orders streams that wait for a slot: those that will end by themselves come
// last.
func (st *stream) rank() int {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.c.phase == running {
		return 1
	}
	return 0
}

type act int

const (
	actNothing  act = iota
	actPrevious     // read the rest of the previous instance, and switch to the new one
	actFollow       // read the current instance
)

// next decides what to do. An unread instance that terminated before the look-back
// period is ignored.
func (st *stream) next() act {
	c, p := &st.c, &st.pos
	switch {
	case c.phase == waiting || !st.leftAt.IsZero() && !st.running:
		return actNothing
	case p.ID == "" && c.phase == ended && !c.finished.IsZero() && c.finished.Before(st.from):
		return actNothing
	case p.ID != c.id:
		return actPrevious
	case p.Done:
		return actNothing
	}
	return actFollow
}

// start marks the stream as running. The caller holds s.mu.
func (st *stream) start(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.running, st.cancel = true, cancel
	return ctx
}

// stopped is the last step of run.
func (st *stream) stopped() {
	st.mu.Lock()
	st.cancel()
	st.running, st.cancel, st.failing, st.stalled.since = false, nil, time.Time{}, time.Time{}
	st.before, st.counted, st.stream = sum(st.before, st.counted), matcher.Counters{}, nil
	c := st.c
	st.mu.Unlock()
	st.s.finished(c)
}

// solved records that the log can be read.
func (st *stream) solved() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.failing, st.stalled.since, st.stalled.why = time.Time{}, time.Time{}, ""
}

// stall records that the log cannot be read.
func (st *stream) stall(now time.Time, why string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.stalled.why = why; st.stalled.since.IsZero() {
		st.stalled.since = now
	}
}

// unread describes the log if it cannot be read.
func (st *stream) unread() (u sources.Unread, is bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return sources.Unread{Path: logPath(st.c), Name: st.path, Why: st.stalled.why, Since: st.stalled.since, Holds: true}, !st.stalled.since.IsZero()
}

// bound is how a stream limits the watermark of the source.
type bound int

const (
	boundNone bound = iota
	boundAt         // read up to a time
	boundLag        // not readable, and read up to a time
	boundNode       // unreadable for long because of its node: nothing waits for it
)

// lowWatermark returns the time up to which the stream was read. The caller holds s.mu.
func (st *stream) lowWatermark(now time.Time) (at time.Time, b bound) {
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case !st.leftAt.IsZero() || !st.wanted && st.chosen || !st.running && st.next() == actNothing:
		st.firstSeen = now // what follows starts later
		return now, boundNone
	case !st.failing.IsZero() && now.Sub(st.failing) >= unreachableAfter:
		return now, boundNode
	case st.stalled.since.IsZero():
		b = boundAt
	default:
		b = boundLag
	}
	if st.answered && now.Sub(st.movedAt) >= idleAfter {
		st.watermark = now
	}
	at = st.watermark
	if st.firstSeen.After(at) {
		at = st.firstSeen
	}
	if st.pos.Newest != 0 {
		if read := time.Unix(0, st.pos.Newest); read.After(at) {
			at = read
		}
	}
	if at.After(now) {
		at = now
	}
	return at, b
}

// total returns the counters since the start.
func (st *stream) total() matcher.Counters {
	st.mu.Lock()
	defer st.mu.Unlock()
	return sum(st.before, st.counted)
}

// status returns the state for the pages; ok is false if the stream is not being read.
func (st *stream) status() (line sources.StreamStatus, ok bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.running || st.stream == nil {
		return line, false
	}
	n := sum(st.before, st.counted)
	return sources.StreamStatus{
		Labels: st.stream.Labels(), Path: st.path, Offset: n.Bytes, Size: n.Bytes, Lines: n.Lines, LastRead: st.lastRead,
	}, true
}
