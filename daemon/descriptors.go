package daemon

import "crowsnest/daemon/component"

// Descriptors are shared: without bounds, logs take all of them and none are left for
// alerts, state and pages.
const (
	maxLogs  = 1024 // default of the log files that a source holds open
	minLogs  = 8
	maxConns = 256
	minConns = 4
)

// openFiles returns how many log files a source may hold open: the configured number,
// and at most its share of half of the descriptors of the process.
func openFiles(configured int, all component.Parts) int {
	sources := 0
	for _, p := range all.All {
		if p.Setting("max_open_files").IsValid() {
			sources++
		}
	}
	if configured == 0 {
		configured = maxLogs
	}
	limit, ok := descriptorLimit()
	if !ok {
		return configured
	}
	return min(configured, max(minLogs, limit/2/max(1, sources)))
}

// webConns returns how many connections our listeners hold.
func webConns() int {
	limit, ok := descriptorLimit()
	if !ok {
		return maxConns
	}
	return min(maxConns, max(minConns, limit/8))
}
