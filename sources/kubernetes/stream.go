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
	// endGrace is how long a log may stay open after the status says that its
	// instance is over.
	endGrace = 5 * time.Second
	// sureAfter is how long after its opening a log is known to be of the
	// instance that the status still names.
	sureAfter = 10 * time.Second
	// openAfter is how long a request waits until it counts as open: of a log
	// without new lines the API does not even send headers.
	openAfter = 3 * time.Second
	// quietAfter is how long nothing came of a log that is read to its end.
	quietAfter = 500 * time.Millisecond
)

// stream is the log of one container, over its restarts. While somebody reads
// it, a goroutine of its own runs.
type stream struct {
	s    *Source
	key  string
	path string
	name podName
	wake chan struct{} // capacity 1: the status changed in a way that matters
	from time.Time     // what is older is not read without a position

	// Guarded by s.mu.
	chosen, wanted bool

	mu       sync.Mutex
	c        container // as the API says now
	pos      position
	running  bool
	cancel   context.CancelFunc // of run
	ending   func()             // ends the request under way; nil: there is none
	leftAt   time.Time          // the pod is gone since; zero: it is there
	stream   *matcher.Stream
	counted  matcher.Counters // of stream
	before   matcher.Counters // of streams before it
	lastRead time.Time

	// For the proof.
	firstSeen time.Time
	proved    time.Time // while nothing is open
	openedAt  time.Time // of the request under way
	answered  bool      // it counts as open
	movedAt   time.Time // the newest bytes came
	failing   time.Time // since when nothing could be opened; zero: it can
}

// position is how far the log was read. It moves with what is matched.
type position struct {
	recent
	id       string // of the instance that is read; "" : none was
	restarts int
	done     bool // that instance has ended and was read to its end
	unread   bool // nothing of it was read, and it is not the first one
}

func newStream(s *Source, c container, now time.Time) *stream {
	st := &stream{s: s, key: c.key(), path: c.path(), name: c.pod, wake: make(chan struct{}, 1), c: c}
	if s.opened { // else nothing is proved yet
		st.firstSeen = now
	} else { // what was written since the start is read, however long that takes
		now = s.began
	}
	st.from = now.Add(-s.cfg.LookBack)
	return st
}

// update takes over what the API says. It reports whether that matters.
func (st *stream) update(c container) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	old := st.c
	st.c = c
	if !maps.Equal(old.labels, c.labels) {
		st.chosen = false
	}
	changed := old.id != c.id || old.phase != c.phase || !st.chosen
	over := c.id != st.pos.id || c.phase == ended
	if changed && over && st.ending != nil {
		// What is open is of an instance that is over. Its log ends by itself,
		// unless it is of the next one already.
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

// leave is called when the pod is gone or not wanted any more. It reports
// whether that is new.
func (st *stream) leave(now time.Time) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.leftAt.IsZero() {
		return false
	}
	st.leftAt = now
	return true
}

// want says whether a rule selects the stream. The caller holds s.mu.
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

// allLabels are those of the pod and those of the configuration.
func (st *stream) allLabels() matcher.Labels {
	st.mu.Lock()
	defer st.mu.Unlock()
	l := maps.Clone(st.c.labels)
	maps.Copy(l, st.s.cfg.Labels)
	return l
}

// What look found.
type lookResult int

const (
	lookNothing lookResult = iota
	lookStart              // it has to be read
	lookForget             // nothing is to be done for it any more
)

// look tells what is to be done. The caller holds s.mu.
func (st *stream) look(now, heard time.Time) lookResult {
	st.mu.Lock()
	defer st.mu.Unlock()
	gone := !st.leftAt.IsZero()
	switch {
	case gone && !st.running:
		return lookForget
	case gone && now.Sub(st.leftAt) >= drainFor:
		st.cancel()
	case st.running:
		if st.answered && st.c.id == st.pos.id && st.c.phase == running && heard.Sub(st.openedAt) >= sureAfter {
			st.pos.conns = nil // what was read since is of this instance
		}
	case st.wanted && st.next() != actNothing:
		return lookStart
	}
	return lookNothing
}

// rank orders streams that wait for a place: those that will end by themselves
// come last.
func (st *stream) rank() int {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.c.phase == running {
		return 1
	}
	return 0
}

// act is what a stream does next.
type act int

const (
	actNothing  act = iota
	actPrevious     // read what is left of the instance before, and go over to the new one
	actFollow       // read the instance
)

// next decides. An instance that ended before the time that is looked back to
// and of which nothing was read is left alone.
func (st *stream) next() act {
	c, p := &st.c, &st.pos
	switch {
	case c.phase == waiting || !st.leftAt.IsZero() && !st.running:
		return actNothing
	case p.id == "" && c.phase == ended && !c.finished.IsZero() && c.finished.Before(st.from):
		return actNothing
	case p.id != c.id:
		return actPrevious
	case p.done:
		return actNothing
	}
	return actFollow
}

// start makes the stream run. The caller holds s.mu.
func (st *stream) start(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.running, st.cancel = true, cancel
	return ctx
}

// stopped is the end of run.
func (st *stream) stopped() {
	st.mu.Lock()
	st.cancel()
	st.running, st.cancel, st.failing = false, nil, time.Time{}
	st.before, st.counted, st.stream = sum(st.before, st.counted), matcher.Counters{}, nil
	c := st.c
	st.mu.Unlock()
	st.s.finished(c)
}

// How a stream bounds the proof of the source.
type bound int

const (
	boundNone bound = iota
	boundAt         // it is read up to a time
	boundNode       // it cannot be read because of its node, for long
)

// proof tells up to when the stream is read. The caller holds s.mu.
func (st *stream) proof(now time.Time) (at time.Time, b bound) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.leftAt.IsZero() || !st.wanted && st.chosen || !st.running && st.next() == actNothing {
		st.firstSeen = now // what comes later starts later
		return now, boundNone
	}
	if !st.failing.IsZero() && now.Sub(st.failing) >= unreachableAfter {
		return now, boundNode
	}
	if st.answered && now.Sub(st.movedAt) >= quietAfter {
		st.proved = now
	}
	at = st.proved
	if st.firstSeen.After(at) {
		at = st.firstSeen
	}
	if st.pos.newest != 0 {
		if read := time.Unix(0, st.pos.newest); read.After(at) {
			at = read
		}
	}
	if at.After(now) {
		at = now
	}
	return at, boundAt
}

// total returns what was read so far.
func (st *stream) total() matcher.Counters {
	st.mu.Lock()
	defer st.mu.Unlock()
	return sum(st.before, st.counted)
}

// status is for the pages; ok is false of a stream that is not being read.
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
