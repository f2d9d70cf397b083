package daemon

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"

	"crowsnest/daemon/config"
)

// gcPercent is the garbage that may accumulate, in percent of the live heap. On a node, memory
// is scarcer than the CPU time that a higher value would save.
const gcPercent = 25

// minGarbage may accumulate while the live heap is smaller than smallHeap. A percentage of so little would
// keep the collector running during a flood of lines.
const (
	minGarbage = 5 << 20
	smallHeap  = 12 << 20
)

// startPercent lets the heap grow to 12 MiB before the first collection.
const startPercent = 300

// Delay delays the first garbage collection. It is safe for concurrent use.
type Delay struct {
	mu    sync.Mutex
	usual int // usual percentage; zero once the delay is over
}

// DelayCollection delays the first garbage collection until the heap has 12 MiB, because most
// commands have ended by then. It does so unless GOGC is set. The delay ends with that
// collection, or by End.
func DelayCollection(getenv func(string) string) *Delay {
	d := &Delay{}
	if getenv("GOGC") != "" {
		return d
	}
	d.usual = debug.SetGCPercent(startPercent)
	type cycle struct{ _ *byte } // the first collection frees it; the pointer keeps it out of shared memory blocks
	runtime.AddCleanup(new(cycle), (*Delay).End, d)
	return d
}

// End restores the usual pace of the collector, if the delay is not over. It does nothing on nil.
func (d *Delay) End() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.usual != 0 {
		debug.SetGCPercent(d.usual)
		d.usual = 0
	}
}

// FreeMemory returns unused memory to the system: garbage, such as that of loading rules, and
// the pages of the program that only the start has used; see ReleaseProgram.
func FreeMemory() error {
	debug.FreeOSMemory()
	return ReleaseProgram()
}

// memoryLimit is enough memory for the default limits. Near it the collector runs more often,
// because a flood of lines produces much garbage.
const memoryLimit = 112 << 20

// LimitMemory sets the pace and the soft limit of the garbage collector, unless GOGC and
// GOMEMLIMIT are set. The soft limit grows with the limits of the configuration. It also
// returns memory that only the load needed to the system; see FreeMemory.
func LimitMemory(getenv func(string) string, limits config.Limits) error {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
		new(pace).keepPace()
	}
	if getenv("GOMEMLIMIT") == "" {
		def := config.Default().Limits
		more := max(1, float64(limits.ActiveAlerts)/float64(def.ActiveAlerts), float64(limits.Keys)/float64(def.Keys))
		debug.SetMemoryLimit(int64(memoryLimit * more))
	}
	return FreeMemory()
}

// pace lets at least minGarbage accumulate between two collections of a small heap.
type pace struct {
	mu      sync.Mutex
	percent int
}

// keepPace sets the pace again after each collection, because the live heap has changed.
func (p *pace) keepPace() {
	type cycle struct{ _ *byte } // the next collection frees it; the pointer keeps it out of shared memory blocks
	runtime.AddCleanup(new(cycle), func(p *pace) {
		p.setFor(liveHeap())
		p.keepPace()
	}, p)
}

// setFor sets the pace for a live heap of this many bytes.
func (p *pace) setFor(live uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Setting the percentage stops all goroutines, so small changes are ignored.
	if percent := percentFor(live); percent > p.percent+p.percent/8 || percent < p.percent-p.percent/8 {
		p.percent = percent
		debug.SetGCPercent(percent)
	}
}

func percentFor(live uint64) int {
	live = max(live, 1<<20)
	garbage := min(minGarbage, smallHeap-min(live, smallHeap))
	return int(max(gcPercent, 100*garbage/live))
}

// liveHeap returns the size of the live heap at the last collection.
func liveHeap() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	if metrics.Read(s); s[0].Value.Kind() != metrics.KindUint64 {
		return 1 << 40
	}
	return s[0].Value.Uint64()
}
