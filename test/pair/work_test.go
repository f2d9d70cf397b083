package pair

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// work opens and ends failures until it is stopped.
type work struct {
	w    *world
	r    *rand.Rand
	stop chan struct{}
	done sync.WaitGroup

	mu   sync.Mutex
	n    int
	open []failure
	all  map[string]failure // by key
}

type failure struct {
	alert, id string
	at        time.Time
	ended     bool
}

func (f failure) key() string { return f.alert + " " + f.id }

// recoversAfter is how old a failure at least is when it ends: receivers have notified of it.
const recoversAfter = 8 * time.Second

func (w *world) work(seed uint64) *work {
	k := &work{w: w, r: rand.New(rand.NewPCG(seed, 2)), stop: make(chan struct{}), all: map[string]failure{}}
	k.done.Go(func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-k.stop:
				return
			case <-tick.C:
				k.step()
			}
		}
	})
	return k
}

func (k *work) end() {
	close(k.stop)
	k.done.Wait()
}

// step logs a line that begins or ends a failure, on a random node.
func (k *work) step() {
	k.mu.Lock()
	defer k.mu.Unlock()
	node := k.r.IntN(2)
	old := slices.IndexFunc(k.open, func(f failure) bool { return time.Since(f.at) > recoversAfter })
	if old >= 0 && k.r.IntN(2) == 0 {
		f := k.open[old]
		k.open = slices.Delete(k.open, old, old+1)
		f.ended = true
		k.all[f.key()] = f
		k.w.write(node, map[string]string{"Broken": "mended", "Lost": "found"}[f.alert]+" id="+f.id)
		return
	}
	k.n++
	f := failure{alert: []string{"Broken", "Lost"}[k.r.IntN(2)], id: fmt.Sprint("x", k.n), at: time.Now()}
	k.open = append(k.open, f)
	k.all[f.key()] = f
	k.w.write(node, map[string]string{"Broken": "broken", "Lost": "lost"}[f.alert]+" id="+f.id)
}

// failures returns all failures so far.
func (k *work) failures() map[string]failure {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := map[string]failure{}
	for key, f := range k.all {
		out[key] = f
	}
	return out
}
