// Package turns gives items to workers, one after the other.
package turns

import (
	"iter"
	"sync"
)

// Queue gives items to workers, each to one worker at a time. An item that is added
// while a worker has it gets another turn. Safe for concurrent use.
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
	runningAgain // added while running
)

// New returns a queue that is closed.
func New[T comparable]() *Queue[T] {
	q := &Queue[T]{state: map[T]state{}, ended: true}
	q.cond = sync.NewCond(&q.mu)
	return q
}

// Open empties the queue; Take waits from then on.
func (q *Queue[T]) Open() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = false
	q.waiting, q.head = nil, 0
	clear(q.state)
}

// Close wakes every worker; Take returns false from then on.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.cond.Broadcast()
}

// Add queues a turn of an item, unless one is queued.
func (q *Queue[T]) Add(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.put(item) {
		q.cond.Signal()
	}
}

// AddAll adds many items that probably have little to do: it wakes one worker per so
// many of them, and a worker with more to do wakes another. It also wakes one if some
// still wait since the last call: their worker may hang.
func (q *Queue[T]) AddAll(items iter.Seq[T]) {
	const perWorker = 256
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head < len(q.waiting) {
		q.cond.Signal()
	}
	n := 0
	for item := range items {
		if !q.put(item) {
			continue
		}
		if n++; n%perWorker == 1 {
			q.cond.Signal()
		}
	}
}

// put reports whether the item waits now and did not before.
func (q *Queue[T]) put(item T) bool {
	switch q.state[item] {
	case 0:
		q.push(item)
		return true
	case running:
		q.state[item] = runningAgain
	}
	return false
}

func (q *Queue[T]) push(item T) {
	if q.head > 1024 && q.head > len(q.waiting)/2 {
		q.waiting = append(q.waiting[:0:0], q.waiting[q.head:]...)
		q.head = 0
	}
	q.state[item] = queued
	q.waiting = append(q.waiting, item)
}

// Take waits for an item; false means that the queue was closed.
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

// Done ends a turn. An item that has more to do goes to the end of the line. Done
// reports whether no item is left.
func (q *Queue[T]) Done(item T, again bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	again = again || q.state[item] == runningAgain
	delete(q.state, item)
	if again {
		q.push(item)
		q.cond.Signal()
	}
	return len(q.state) == 0
}

// Held reports whether a worker has the item.
func (q *Queue[T]) Held(item T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state[item] >= running
}

// Idle reports whether no worker has the item or is about to.
func (q *Queue[T]) Idle(item T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state[item] == 0
}
