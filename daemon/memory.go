package daemon

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"

	"crowsnest/daemon/config"
)

// gcPercent is the value of GOGC, the percentage of the live heap by which garbage may grow between collections. It is
// lower than Go's default, because memory on a node is scarcer than the CPU time that a higher value would save.
const gcPercent = 25

// minGarbage is the number of bytes of garbage that may accumulate while the live heap is smaller than smallHeap. A
// percentage of a small heap would keep the collector running during a flood of lines.
const (
	minGarbage = 5 << 20
	smallHeap  = 12 << 20
)

// startPercent lets the heap grow to 12 MiB before the first collection.
const startPercent = 300

// Delay delays the first garbage collection. It is safe for concurrent use.
type Delay struct {
	mu    sync.Mutex
	usual int // percentage to restore; zero after the delay is over
}

// DelayCollection delays the first garbage collection until the heap has 12 MiB, because most commands end before that.
// It does nothing if GOGC is set. The delay ends with the first collection or with a call of End.
func DelayCollection(getenv func(string) string) *Delay {
	d := &Delay{}
	if getenv("GOGC") != "" {
		return d
	}
	d.usual = debug.SetGCPercent(startPercent)
	type cycle struct{ _ *byte } // freed by the first collection; the pointer field keeps it out of the allocator's shared blocks
	runtime.AddCleanup(new(cycle), (*Delay).End, d)
	return d
}

// End restores the usual pace of the collector if the delay is not over. A nil Delay does nothing.
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

// FreeMemory returns unused memory to the system. This includes garbage, for example from loading rules, and pages of
// the program that only the start has used; see ReleaseProgram.
func FreeMemory() error {
	debug.FreeOSMemory()
	return ReleaseProgram()
}

// memoryLimit is the soft memory limit in bytes, which suffices for the default limits of the configuration. Together
// with the mapped pages of the program, which the limit does not include, the process stays below 128 MiB. Near the
// soft limit the collector runs more often, because a flood of lines produces much garbage.
const memoryLimit = 104 << 20

// LimitMemory sets the pace and the soft limit of the garbage collector, unless GOGC and GOMEMLIMIT are set. The soft
// limit grows with the limits of the configuration. LimitMemory also frees the memory that only the load needed; see
// FreeMemory.
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

// pace adjusts the garbage collector so that at least minGarbage accumulates between two collections, even if the heap
// is small.
type pace struct {
	mu      sync.Mutex
	percent int
}

// keepPace adjusts the pace after each collection to the new size of the live heap.
func (p *pace) keepPace() {
	type cycle struct{ _ *byte } // freed by the next collection; the pointer field keeps it out of the allocator's shared blocks
	runtime.AddCleanup(new(cycle), func(p *pace) {
		p.setFor(liveHeap())
		p.keepPace()
	}, p)
}

// setFor sets the pace for a live heap of live bytes.
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
