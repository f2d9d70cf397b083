package daemon

import (
	"crowsnest/daemon/config"
)

// What the process may open is shared: without bounds, logs take all of it and
// alerts, state and pages have none.
const (
	mostLogs  = 1024 // log files that a source holds open, unless it says otherwise
	leastLogs = 8
	mostConns = 256
	leastConn = 4
)

// openFiles is how many log files a source may hold open: what it says, and of
// half of what the process may open its share.
func openFiles(configured int, cfg *config.Config) int {
	sources := len(cfg.Sources.Files)
	if cfg.Sources.Kubelet != nil {
		sources++
	}
	if configured == 0 {
		configured = mostLogs
	}
	limit, ok := descriptorLimit()
	if !ok {
		return configured
	}
	return min(configured, max(leastLogs, limit/2/max(1, sources)))
}

// webConns is how many connections our listeners hold.
func webConns() int {
	limit, ok := descriptorLimit()
	if !ok {
		return mostConns
	}
	return min(mostConns, max(leastConn, limit/8))
}
