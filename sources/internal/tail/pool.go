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
	stopTicks = 6 // number of stopEvery after which hanging calls are left behind
)

// beat detects that a goroutine is in an operation that does not end. The goroutine
// calls start and stop, the coordinator calls hung.
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

// worker is one reading goroutine and its buffers.
type worker struct {
	beat     beat
	buf      []byte
	follower atomic.Pointer[follower] // the one that it reads; nil if there is none
	replaced atomic.Bool              // another worker took over: it ends after this turn
}

func newWorker() *worker { return &worker{} }

// space returns the buffer. A worker that hangs before it reads needs no buffer.
func (w *worker) space() []byte {
	if w.buf == nil {
		w.buf = make([]byte, maxMark+blockSize+slack)
	}
	return w.buf
}

// pool holds the workers of a Tailer. It replaces a worker that hangs in a system
// call, so that no log waits for another one.
type pool struct {
	t  *Tailer
	wg *sync.WaitGroup

	mu  sync.Mutex
	all map[*worker]bool
}

// newPool starts the workers. wg counts them.
func newPool(t *Tailer, wg *sync.WaitGroup) *pool {
	wp := &pool{t: t, wg: wg, all: map[*worker]bool{}}
	for range workers {
		wp.hire()
	}
	return wp
}

func (wp *pool) hire() {
	w := newWorker()
	wp.mu.Lock()
	wp.all[w] = true
	wp.mu.Unlock()
	wp.wg.Go(func() { wp.work(w) })
}

func (wp *pool) work(w *worker) {
	q := wp.t.queue
	for c, ok := q.Take(); ok; c, ok = q.Take() {
		w.follower.Store(c)
		w.beat.start()
		again := c.run(w)
		w.beat.stop()
		w.follower.Store(nil)
		if q.Done(c, again) {
			kick(wp.t.wake) // every follower had a turn: the watermark may advance
		}
		if w.replaced.Load() {
			wp.t.gunzips.Drop()
			break
		}
	}
	wp.mu.Lock()
	defer wp.mu.Unlock()
	delete(wp.all, w)
}

// relieve replaces hung workers. The coordinator calls it once a tick.
func (wp *pool) relieve(finder *beat) {
	t, now := wp.t, wp.t.cfg.Clock()
	t.setSearching(now, finder.hung(hungTicks))
	hired := 0
	wp.mu.Lock()
	for w := range wp.all {
		c := w.follower.Load()
		if !w.beat.hung(hungTicks) || c == nil || w.replaced.Load() {
			continue
		}
		c.stall(now, "a read of it does not return")
		if len(wp.all)+hired < workers+maxHung {
			w.replaced.Store(true)
			hired++
		} else {
			t.fail("hung", fmt.Errorf("%d reads hang: the logs behind them wait", maxHung))
		}
	}
	wp.mu.Unlock()
	for range hired {
		t.count("hung")
		t.gunzips.Add()
		wp.hire()
	}
}

// wait returns when every goroutine has ended except the hung ones.
func (wp *pool) wait(finder *beat) {
	done := make(chan struct{})
	go func() {
		wp.wg.Wait()
		close(done)
	}()
	tick := time.NewTicker(stopEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			if wp.onlyHung(finder) {
				return
			}
		}
	}
}

func (wp *pool) onlyHung(finder *beat) bool {
	wp.mu.Lock()
	defer wp.mu.Unlock()
	left := finder.n.Load()%2 == 0 || finder.hung(stopTicks)
	for w := range wp.all {
		left = w.beat.hung(stopTicks) && left
	}
	return left && (len(wp.all) > 0 || finder.n.Load()%2 == 1)
}

// hand passes lines to the pipeline until it is closed: a worker that is left behind
// must not move a position after the last save.
type hand struct {
	mu sync.RWMutex
	p  sources.Pipeline // nil if closed
}

func (h *hand) open(p sources.Pipeline) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.p = p
}

// close waits for the lines that are being passed on.
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
