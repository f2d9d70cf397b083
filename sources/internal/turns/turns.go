// Package turns distributes items to workers in the order in which they were added.
package turns

import (
	"iter"
	"sync"
)

// Queue distributes items to workers. No two workers have the same item at the same time. If an
// item is added while a worker has it, it is queued again. It is safe for concurrent use.
type Queue[T comparable] struct {
	mu      sync.Mutex
	cond    *sync.Cond
	waiting []T
	head    int
	state   map[T]state
	ended   bool
}

type state int

const (
	queued state = iota + 1
	running
	runningAgain // a worker has the item, and it was added again in the meantime
)

// New returns a queue that is closed.
func New[T comparable]() *Queue[T] {
	q := &Queue[T]{state: map[T]state{}, ended: true}
	q.cond = sync.NewCond(&q.mu)
	return q
}

// Open empties the queue. From then on, Take waits for items.
func (q *Queue[T]) Open() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = false
	q.waiting, q.head = nil, 0
	clear(q.state)
}

// Close wakes every worker. From then on, Take returns false.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.cond.Broadcast()
}

// Add queues a turn of an item, unless the item is already queued.
func (q *Queue[T]) Add(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.enqueue(item) {
		q.cond.Signal()
	}
}

// AddAll adds many items, most of which probably need little work. It wakes few workers, and a
// worker that has more work wakes another one. If items of the last call are still waiting,
// AddAll wakes one more worker, because a worker may hang.
func (q *Queue[T]) AddAll(items iter.Seq[T]) {
	const perWorker = 256
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head < len(q.waiting) {
		q.cond.Signal()
	}
	n := 0
	for item := range items {
		if !q.enqueue(item) {
			continue
		}
		if n++; n%perWorker == 1 {
			q.cond.Signal()
		}
	}
}

// enqueue puts an item into the queue. It reports whether the item was not in the queue
// before.
func (q *Queue[T]) enqueue(item T) bool {
	switch q.state[item] {
	case 0:
		q.appendItem(item)
		return true
	case running:
		q.state[item] = runningAgain
	}
	return false
}

func (q *Queue[T]) appendItem(item T) {
	if q.head > 1024 && q.head > len(q.waiting)/2 {
		q.waiting = append(q.waiting[:0:0], q.waiting[q.head:]...)
		q.head = 0
	}
	q.state[item] = queued
	q.waiting = append(q.waiting, item)
}

// Take waits for an item. ok is false if the queue was closed.
func (q *Queue[T]) Take() (item T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.head == len(q.waiting) && !q.ended {
		q.cond.Wait()
	}
	if q.ended {
		return item, false
	}
	var none T
	item, q.waiting[q.head] = q.waiting[q.head], none
	q.head++
	q.state[item] = running
	return item, true
}

// Done ends the turn of an item. If again is set, the item goes to the end of the queue. Done
// reports whether no item is left.
func (q *Queue[T]) Done(item T, again bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	again = again || q.state[item] == runningAgain
	delete(q.state, item)
	if again {
		q.appendItem(item)
		q.cond.Signal()
	}
	return len(q.state) == 0
}

// IsHeld reports whether a worker has the item.
func (q *Queue[T]) IsHeld(item T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state[item] >= running
}

// IsIdle reports whether an item is neither waiting nor with a worker.
func (q *Queue[T]) IsIdle(item T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state[item] == 0
}
