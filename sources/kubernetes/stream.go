package kubernetes

import (
	"context"
	"maps"
	"sync"
	"time"

	"crowsnest/internal/pause"
	"crowsnest/internal/times"
	"crowsnest/matcher"
	"crowsnest/sources"
)

const (
	// endGrace is the time for which a request may continue after the status says that its instance has terminated.
	endGrace = 5 * time.Second
	// sureAfter is the time for which a request must have been open. If the status still has
	// the same instance then, the log certainly belongs to this instance.
	sureAfter = 10 * time.Second
	// openAfter is the time after which a request without a response counts as open. The API does not send even headers
	// before there are new lines. After a failure the time is reopenAfter, because an API server takes half a minute to
	// find out that a node does not answer.
	openAfter   = 3 * time.Second
	reopenAfter = 45 * time.Second
	idleAfter   = 500 * time.Millisecond // time without bytes after which a log counts as read to its end
)

// stream is the log of one container, across restarts. It is read by its own goroutine.
type stream struct {
	s    *Source
	key  string
	path string
	name podName
	wake chan struct{} // receives a value after a relevant change of the status
	from time.Time     // time before which lines are not read if there is no saved position

	// The following fields are guarded by s.mu.
	chosen, wanted bool // whether it was decided if a rule selects the stream, and the decision

	mu              sync.Mutex
	c               container // state of the container, according to the API
	pos             position
	running         bool
	cancel          context.CancelFunc // cancels run
	ending          func()             // cancels the current request; nil if there is none
	leftAt          time.Time          // time at which the pod was deleted or deselected; zero if it was not
	stream          *matcher.Stream
	counted         matcher.Counters // counters of the current matcher stream
	earlierCounters matcher.Counters // sum of the counters of earlier matcher streams
	lastRead        time.Time

	// The following fields are needed to compute the watermark.
	firstSeen time.Time
	watermark time.Time // time up to which the log was read, while no request is open
	sure      time.Time // watermark at the start of the newest request
	openedAt  time.Time // start of the current request
	answered  bool      // whether the current request counts as open
	movedAt   time.Time // time at which bytes last arrived
	// failing is the time since which the network, the server or the node has prevented the opening of the log. Zero
	// means that none of them prevents it.
	failing time.Time
	stalled struct { // reason why the log cannot be read, and time since when; zero if the last request succeeded
		since time.Time
		why   string
	}
}

func newStream(s *Source, c container, now time.Time) *stream {
	st := &stream{s: s, key: c.key(), path: c.path(), name: c.pod, wake: make(chan struct{}, 1), c: c}
	if s.opened { // before that, the source has no watermark
		st.firstSeen = now
	} else { // read all lines since the start, even if opening the log takes long
		now = s.began
	}
	st.from = now.Add(-s.cfg.LookBack)
	return st
}

// updateContainer stores the state that the API reports, and returns whether the change is relevant.
func (st *stream) updateContainer(c container) bool {
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
		// The open request reads a terminated instance. It usually ends by itself. Otherwise it is cancelled, because
		// it may already read the next instance.
		time.AfterFunc(endGrace, st.ending)
	}
	if changed {
		pause.Wake(st.wake)
	}
	return changed
}

func (st *stream) allLabels() matcher.Labels {
	st.mu.Lock()
	defer st.mu.Unlock()
	l := maps.Clone(st.c.labels)
	maps.Copy(l, st.s.cfg.Labels)
	return l
}

// poll reports whether the stream must be started or removed. The caller holds s.mu.
func (st *stream) poll(now, lastEvent time.Time) (start, remove bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	podDeleted := !st.leftAt.IsZero()
	switch {
	case podDeleted && !st.running:
		return false, true
	case podDeleted && now.Sub(st.leftAt) >= drainFor:
		st.cancel()
	case st.running:
		if st.answered && st.c.id == st.pos.ID && st.c.phase == running && lastEvent.Sub(st.openedAt) >= sureAfter {
			st.pos.Conns = nil // it is now certain which instance the connection reads
		}
	default:
		start = st.wanted && st.nextAction() != actNothing
	}
	return start, false
}

// rank orders the streams that wait for a slot, the highest rank first. The log of a container
// that does not run comes last, because it ends.
func (st *stream) rank() int {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.c.phase == running {
		return 1
	}
	return 0
}

type action int

const (
	actNothing  action = iota
	actPrevious        // read the rest of the previous instance, and switch to the current one
	actFollow          // read the current instance
)

// nextAction returns the next action of the stream. It ignores an unread instance that
// terminated before the look-back period.
func (st *stream) nextAction() action {
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

func (st *stream) finishRun() {
	st.mu.Lock()
	st.cancel()
	st.running, st.cancel, st.failing, st.stalled.since = false, nil, time.Time{}, time.Time{}
	st.earlierCounters, st.counted, st.stream = st.sumCounters(), matcher.Counters{}, nil
	s, c := st.s, st.c
	st.mu.Unlock()
	s.mu.Lock()
	s.running--
	s.problems.clear(textKey(c), c.key())
	s.problems.clear(nodeKey(c), c.key())
	s.mu.Unlock()
	s.wakeUp()
}

func (st *stream) markReadable() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.failing, st.stalled.since, st.stalled.why = time.Time{}, time.Time{}, ""
}

func (st *stream) markUnreadable(now time.Time, why string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.stalled.why = why; st.stalled.since.IsZero() {
		st.stalled.since = now
	}
}

// describeUnread describes the log if it cannot be read. is reports whether it cannot be read.
func (st *stream) describeUnread() (u sources.UnreadLog, is bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return sources.UnreadLog{Path: logPath(st.c), Name: st.path, Reason: st.stalled.why, Since: st.stalled.since, Holds: true}, !st.stalled.since.IsZero()
}

// bound is the way in which a stream limits the watermark of the source.
type bound int

const (
	boundNone bound = iota
	boundAt         // the stream was read up to a time
	boundLag        // the stream cannot be read now, and was read up to a time
	boundNode       // decisions no longer wait for the stream, because its node was unreachable for too long
)

// lowWatermark returns the time up to which the stream was read, and how it limits the
// watermark of the source. The caller holds s.mu.
func (st *stream) lowWatermark(now time.Time) (at time.Time, b bound) {
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case !st.leftAt.IsZero() || !st.wanted && st.chosen || !st.running && st.nextAction() == actNothing:
		st.firstSeen = now // no line from before this time remains to be read
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
	at = times.Max(st.watermark, st.firstSeen)
	if st.pos.Newest != 0 {
		at = times.Max(at, time.Unix(0, st.pos.Newest))
	}
	return times.Min(at, now), b
}

func (st *stream) totalCounters() matcher.Counters {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.sumCounters()
}

// sumCounters returns the counters of all matcher streams so far. The caller holds mu.
func (st *stream) sumCounters() matcher.Counters {
	sum := st.counted
	sum.Add(st.earlierCounters)
	return sum
}

// status returns the state for the status pages. ok is false if the stream is not being read.
func (st *stream) status() (line sources.StreamStatus, ok bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.running || st.stream == nil {
		return line, false
	}
	n := st.sumCounters()
	return sources.StreamStatus{
		Labels: st.stream.Labels(), Path: st.path, Offset: n.Bytes, Size: n.Bytes, Lines: n.Lines, LastRead: st.lastRead,
	}, true
}
