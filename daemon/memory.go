package daemon

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"

	"crowsnest/daemon/config"
)

// gcPercent is how much garbage may pile up beside what lives: a node has more
// use for the memory than for the little time that this saves.
const gcPercent = 25

// leastGarbage may pile up while the heap is smaller than leastHeap. With few
// rules little lives, and a percentage of it would have the collector run all the
// time under a flood.
const (
	leastGarbage = 5 << 20
	leastHeap    = 12 << 20
)

// memoryLimit is how much memory is enough with the default limits. Near it the
// collector works harder instead of letting garbage pile up: a flood of lines
// makes much of it.
const memoryLimit = 112 << 20

// LimitMemory sets the pace and the soft limit of the collector, unless GOGC and
// GOMEMLIMIT say otherwise. The limit grows with what the configuration lets be
// kept.
func LimitMemory(getenv func(string) string, limits config.Limits) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
		new(pace).keep()
	}
	if getenv("GOMEMLIMIT") != "" {
		return
	}
	def := config.Default().Limits
	more := max(1, float64(limits.ActiveAlerts)/float64(def.ActiveAlerts), float64(limits.Keys)/float64(def.Keys))
	debug.SetMemoryLimit(int64(memoryLimit * more))
}

// pace lets at least leastGarbage pile up between two collections of a small heap.
type pace struct {
	mu      sync.Mutex
	percent int
}

// keep sets the pace again after each collection, which changes what lives.
func (p *pace) keep() {
	type cycle struct{ _ *byte } // found dead by the next collection; with a pointer, so that it has room of its own
	runtime.AddCleanup(new(cycle), func(p *pace) {
		p.set(liveHeap())
		p.keep()
	}, p)
}

// set sets the pace for so many bytes that live.
func (p *pace) set(live uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// It stops everything for a moment: small changes are not worth that.
	if percent := percentFor(live); percent > p.percent+p.percent/8 || percent < p.percent-p.percent/8 {
		p.percent = percent
		debug.SetGCPercent(percent)
	}
}

func percentFor(live uint64) int {
	live = max(live, 1<<20)
	garbage := min(leastGarbage, leastHeap-min(live, leastHeap))
	return int(max(gcPercent, 100*garbage/live))
}

// liveHeap is how much the last collection found alive.
func liveHeap() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	if metrics.Read(s); s[0].Value.Kind() != metrics.KindUint64 {
		return 1 << 40
	}
	return s[0].Value.Uint64()
}
