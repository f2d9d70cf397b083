package daemon

import "crowsnest/daemon/component"

// Descriptors are shared by all parts. Without bounds, logs would take all of them, and none
// would be left for alerts, state and pages.
const (
	maxLogs  = 1024 // default number of log files that a source holds open
	minLogs  = 8
	maxConns = 256
	minConns = 4
)

// openFiles returns the number of log files that a source may hold open: the configured number,
// but at most the source's share of half of the process's descriptors.
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

// webConns returns the number of connections that our listeners accept at the same time.
func webConns() int {
	limit, ok := descriptorLimit()
	if !ok {
		return maxConns
	}
	return min(maxConns, max(minConns, limit/8))
}
