package tail

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"crowsnest/matcher"
	"crowsnest/sources"
)

const (
	hungTicks = 2  // ticks after which an operation counts as hung
	maxHung   = 64 // workers in a hung operation that are replaced
	stopEvery = 100 * time.Millisecond
	stopTicks = 6 // of stopEvery: after it, what still hangs is left behind
)

// beat shows whether a goroutine is in an operation that does not end. The
// goroutine calls start and stop, the coordinator hung.
type beat struct {
	n     atomic.Uint64 // odd: in an operation
	seen  uint64
	ticks int
}

func (b *beat) start() { b.n.Add(1) }
func (b *beat) stop()  { b.n.Add(1) }

// hung reports whether the operation of the last few calls is the same.
func (b *beat) hung(ticks int) bool {
	n := b.n.Load()
	if n%2 == 0 || n != b.seen {
		b.seen, b.ticks = n, 0
		return false
	}
	b.ticks++
	return b.ticks >= ticks
}

// worker is one goroutine that reads, and what it reads into.
type worker struct {
	beat     beat
	buf      []byte
	chain    atomic.Pointer[chain] // that it has; nil: none
	replaced atomic.Bool           // another one does its work: it ends after this turn
}

func newWorker() *worker { return &worker{} }

// space returns the buffer. A worker that hangs before it reads needs none.
func (w *worker) space() []byte {
	if w.buf == nil {
		w.buf = make([]byte, maxMark+blockSize+slack)
	}
	return w.buf
}

// crew is the workers of a Tailer. One that hangs in a system call is replaced,
// so that no log waits for another one.
type crew struct {
	t  *Tailer
	wg *sync.WaitGroup

	mu  sync.Mutex
	all map[*worker]bool
}

// newCrew starts the workers. wg counts them.
func newCrew(t *Tailer, wg *sync.WaitGroup) *crew {
	cr := &crew{t: t, wg: wg, all: map[*worker]bool{}}
	for range t.cfg.Workers {
		cr.hire()
	}
	return cr
}

func (cr *crew) hire() {
	w := newWorker()
	cr.mu.Lock()
	cr.all[w] = true
	cr.mu.Unlock()
	cr.wg.Go(func() { cr.work(w) })
}

func (cr *crew) work(w *worker) {
	q := cr.t.queue
	for c := q.take(); c != nil; c = q.take() {
		w.chain.Store(c)
		w.beat.start()
		again := c.run(w)
		w.beat.stop()
		w.chain.Store(nil)
		if q.done(c, again) {
			kick(cr.t.wake) // all were looked at: something may be proved
		}
		if w.replaced.Load() {
			cr.t.gunzips.resize(-1)
			break
		}
	}
	cr.mu.Lock()
	defer cr.mu.Unlock()
	delete(cr.all, w)
}

// relieve replaces the workers that hang. It is called once a tick.
func (cr *crew) relieve(finder *beat) {
	t, now := cr.t, cr.t.cfg.Clock()
	t.setSearching(now, finder.hung(hungTicks))
	hired := 0
	cr.mu.Lock()
	for w := range cr.all {
		c := w.chain.Load()
		if !w.beat.hung(hungTicks) || c == nil || w.replaced.Load() {
			continue
		}
		c.stall(now, "a read of it does not return")
		if len(cr.all)+hired < t.cfg.Workers+maxHung {
			w.replaced.Store(true)
			hired++
		} else {
			t.fail("hung", fmt.Errorf("%d reads hang: the logs behind them wait", maxHung))
		}
	}
	cr.mu.Unlock()
	for range hired {
		t.count("hung")
		if c := t.gunzips.resize(1); c != nil {
			t.queue.add(c)
		}
		cr.hire()
	}
}

// wait returns when every goroutine has ended but those that hang.
func (cr *crew) wait(finder *beat) {
	done := make(chan struct{})
	go func() {
		cr.wg.Wait()
		close(done)
	}()
	tick := time.NewTicker(stopEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			if cr.onlyHung(finder) {
				return
			}
		}
	}
}

func (cr *crew) onlyHung(finder *beat) bool {
	cr.mu.Lock()
	defer cr.mu.Unlock()
	left := finder.n.Load()%2 == 0 || finder.hung(stopTicks)
	for w := range cr.all {
		left = w.beat.hung(stopTicks) && left
	}
	return left && (len(cr.all) > 0 || finder.n.Load()%2 == 1)
}

// hand gives lines to the pipeline until it is closed: a worker that is left
// behind must not move a position after the last one was saved.
type hand struct {
	mu sync.RWMutex
	p  sources.Pipeline // nil: closed
}

func (h *hand) open(p sources.Pipeline) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.p = p
}

// close waits for what is being handed on.
func (h *hand) close() { h.open(nil) }

func (h *hand) scan(s *matcher.Stream, block []byte, commit func()) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.p != nil {
		h.p.Scan(s, block, commit)
	}
}

func (h *hand) flush(s *matcher.Stream) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.p != nil {
		h.p.Flush(s)
	}
}
