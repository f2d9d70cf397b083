package replay

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// runParallel applies f to every element of in, on all cores, and returns the results in order.
func runParallel[T, R any](in []T, f func(T) R) []R {
	out := make([]R, len(in))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(in)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(in)); i = next.Add(1) - 1 {
				out[i] = f(in[i])
			}
		})
	}
	wg.Wait()
	return out
}
