package tail

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"crowsnest/internal/pause"
	"crowsnest/matcher"
	"crowsnest/sources"
)

const (
	hungTicks = 2  // number of ticks after which an operation counts as hung
	maxHung   = 64 // largest number of hung workers that are replaced
	stopEvery = 100 * time.Millisecond
	stopTicks = 6 // number of stopEvery intervals after which hanging calls are abandoned
)

// beat detects an operation of a goroutine that hangs. The goroutine calls start and stop. The
// coordinator calls isHung.
type beat struct {
	n     atomic.Uint64 // number of starts and stops; odd during an operation
	seen  uint64
	ticks int
}

func (b *beat) start() { b.n.Add(1) }
func (b *beat) stop()  { b.n.Add(1) }

// isHung reports whether the same operation was running in all of the last calls. ticks is the
// number of these calls.
func (b *beat) isHung(ticks int) bool {
	n := b.n.Load()
	if n%2 == 0 || n != b.seen {
		b.seen, b.ticks = n, 0
		return false
	}
	b.ticks++
	return b.ticks >= ticks
}

type worker struct {
	beat     beat
	buf      []byte
	follower atomic.Pointer[follower] // follower whose turn it executes; nil if there is none
	replaced atomic.Bool              // whether another worker has replaced it, so that it ends after this turn
}

// buffer returns the worker's buffer. It is allocated late, because a worker that hangs before
// it reads needs no buffer.
func (w *worker) buffer() []byte {
	if w.buf == nil {
		w.buf = make([]byte, maxMark+blockSize+slack)
	}
	return w.buf
}

// pool holds the workers of a Tailer. It replaces a worker that hangs in a system call, so that
// other logs do not wait for it.
type pool struct {
	t  *Tailer
	wg *sync.WaitGroup

	mu  sync.Mutex
	all map[*worker]bool
}

func (wp *pool) addWorkers(ctx context.Context, n int) {
	wp.mu.Lock()
	defer wp.mu.Unlock()
	for range n {
		w := &worker{}
		wp.all[w] = true
		wp.wg.Go(func() { wp.runWorker(ctx, w) })
	}
}

func (wp *pool) runWorker(ctx context.Context, w *worker) {
	q := wp.t.queue
	for c := q.take(ctx); c != nil; c = q.take(ctx) {
		w.follower.Store(c)
		w.beat.start()
		again := c.runTurn(w)
		w.beat.stop()
		w.follower.Store(nil)
		if q.done(c, again) {
			pause.Wake(wp.t.wake) // every follower had a turn, so the watermark may advance
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

// replaceHung replaces hung workers. The coordinator calls it once per tick.
func (wp *pool) replaceHung(ctx context.Context) {
	t, now, hired := wp.t, wp.t.cfg.Clock(), 0
	wp.mu.Lock()
	for w := range wp.all {
		c := w.follower.Load()
		if !w.beat.isHung(hungTicks) || c == nil || w.replaced.Load() {
			continue
		}
		c.recordStall(now, "reading it hangs")
		if len(wp.all)+hired < workers+maxHung {
			w.replaced.Store(true)
			hired++
		} else {
			t.recordError("hung", fmt.Errorf("%d reads hang, and other logs wait for them", maxHung))
		}
	}
	wp.mu.Unlock()
	for range hired {
		t.countError("hung")
		t.gunzips.Add()
	}
	wp.addWorkers(ctx, hired)
}

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
	left := finder.n.Load()%2 == 0 || finder.isHung(stopTicks)
	for w := range wp.all {
		left = w.beat.isHung(stopTicks) && left
	}
	return left && (len(wp.all) > 0 || finder.n.Load()%2 == 1)
}

// States of a follower in a queue.
const (
	turnIdle int32 = iota
	turnQueued
	turnRunning
	turnRunningAgain // a worker is running the follower, and must run the follower once more
)

// queue distributes followers to workers in the order in which they were added. No two workers
// have the same follower at the same time. If a follower is added while a worker has it, it
// gets another turn. A queue is safe for concurrent use.
type queue struct {
	waiting chan *follower // has room for every follower
	busy    atomic.Int64   // number of followers that wait or are with a worker
}

func newQueue(size int) *queue { return &queue{waiting: make(chan *follower, size)} }

// add queues a turn of a follower, unless the follower is already queued.
func (q *queue) add(c *follower) {
	if c.turn.CompareAndSwap(turnIdle, turnQueued) {
		q.busy.Add(1)
		q.waiting <- c
	} else if !c.turn.CompareAndSwap(turnRunning, turnRunningAgain) && c.turn.Load() == turnIdle {
		q.add(c) // its turn has just ended
	}
}

// take waits for a follower. It returns nil when ctx ends.
func (q *queue) take(ctx context.Context) *follower {
	if ctx.Err() != nil {
		return nil
	}
	select {
	case <-ctx.Done():
		return nil
	case c := <-q.waiting:
		c.turn.Store(turnRunning)
		return c
	}
}

// done ends the turn of a follower. If again is set, the follower goes to the end of the
// queue. done reports whether no follower is left.
func (q *queue) done(c *follower, again bool) bool {
	if !again && c.turn.CompareAndSwap(turnRunning, turnIdle) {
		return q.busy.Add(-1) == 0
	}
	c.turn.Store(turnQueued)
	q.waiting <- c
	return false
}

// pipelineGuard passes lines to the pipeline until the guard is closed. An abandoned worker therefore cannot move a
// position after the last save.
type pipelineGuard struct {
	mu sync.RWMutex
	p  sources.Pipeline // pipeline; nil if closed
}

func (h *pipelineGuard) open(p sources.Pipeline) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.p = p
}

// close closes the guard. It first waits for lines that are being passed on.
func (h *pipelineGuard) close() { h.open(nil) }

func (h *pipelineGuard) scan(s *matcher.Stream, block []byte, commit func()) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.p != nil {
		h.p.Scan(s, block, commit)
	}
}

func (h *pipelineGuard) flush(s *matcher.Stream) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.p != nil {
		h.p.Flush(s)
	}
}
