package tail

import "sync"

// queue gives followers to workers, one after the other, each to one worker at a
// time. A follower that is added while a worker has it gets another turn.
type queue struct {
	mu      sync.Mutex
	cond    *sync.Cond
	waiting []*follower
	head    int
	state   map[*follower]turnState
	ended   bool
}

type turnState int

const (
	queued turnState = iota + 1
	running
	runningAgain // added while running
)

func newQueue() *queue {
	q := &queue{state: map[*follower]turnState{}, ended: true}
	q.cond = sync.NewCond(&q.mu)
	return q
}

func (q *queue) open() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = false
	q.waiting, q.head = nil, 0
	clear(q.state)
}

// close wakes every worker; take returns nil from then on.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.cond.Broadcast()
}

func (q *queue) add(c *follower) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.put(c) {
		q.cond.Signal()
	}
}

// addAll adds many followers that probably have little to read: it wakes one worker
// per so many of them, and a worker with more to read wakes another. It also wakes
// one if some still wait since the last call: their worker may hang in a read.
func (q *queue) addAll(followers map[string]*follower) {
	const perWorker = 256
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head < len(q.waiting) {
		q.cond.Signal()
	}
	n := 0
	for _, c := range followers {
		if !q.put(c) {
			continue
		}
		if n++; n%perWorker == 1 {
			q.cond.Signal()
		}
	}
}

// put reports whether the follower waits now and did not before.
func (q *queue) put(c *follower) bool {
	switch q.state[c] {
	case 0:
		q.push(c)
		return true
	case running:
		q.state[c] = runningAgain
	}
	return false
}

func (q *queue) push(c *follower) {
	if q.head > 1024 && q.head > len(q.waiting)/2 {
		q.waiting = append(q.waiting[:0:0], q.waiting[q.head:]...)
		q.head = 0
	}
	q.state[c] = queued
	q.waiting = append(q.waiting, c)
}

// take waits for a follower; nil means that the queue was closed.
func (q *queue) take() *follower {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.head == len(q.waiting) && !q.ended {
		q.cond.Wait()
	}
	if q.ended {
		return nil
	}
	c := q.waiting[q.head]
	q.waiting[q.head] = nil
	q.head++
	q.state[c] = running
	return c
}

// done ends a turn. A follower that has more to read goes to the end of the line.
// It reports whether no follower is left.
func (q *queue) done(c *follower, again bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	again = again || q.state[c] == runningAgain
	delete(q.state, c)
	if again {
		q.push(c)
		q.cond.Signal()
	}
	return len(q.state) == 0
}

// held reports whether a worker has the follower.
func (q *queue) held(c *follower) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state[c] == running || q.state[c] == runningAgain
}

// idle reports whether no worker has the follower or is about to.
func (q *queue) idle(c *follower) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state[c] == 0
}
