package main

import (
	"runtime/debug"
)

// gcPercent is how much garbage may pile up beside what lives: a node has more
// use for the memory than for the little time that this saves.
const gcPercent = 50

// memoryLimit is how much memory is enough with the default limits. Near it the
// collector works harder instead of letting garbage pile up: a flood of lines
// makes much of it.
const memoryLimit = 112 << 20

// limitMemory sets the pace and the soft limit of the collector, unless GOGC and
// GOMEMLIMIT say otherwise. The limit grows with what the configuration lets be
// kept.
func limitMemory(getenv func(string) string, limits Limits) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if getenv("GOMEMLIMIT") != "" {
		return
	}
	def := defaultConfig().Limits
	more := max(1, float64(limits.ActiveAlerts)/float64(def.ActiveAlerts), float64(limits.Keys)/float64(def.Keys))
	debug.SetMemoryLimit(int64(memoryLimit * more))
}
