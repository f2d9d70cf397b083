// Package fleet reads the open alerts of many crowsnest daemons, one for each cluster,
// through their API. It has no lines and serves no rule: package crowsnest/fleet concludes
// from what it knows about the clusters.
//
// A cluster is polled every interval, with some jitter. One whose last answer is older
// than unknown_after is unknown: its last known alerts are kept and marked as old. The same
// holds for a cluster whose name is in doubt: two targets have it, or the daemon has another
// one in its external labels.
//
// Clusters are listed in the configuration, or found by the service discovery over HTTP or
// files that Prometheus defines. One that is no longer found counts as unknown until
// forget_after, so an inventory that is empty by mistake ends nothing.
package fleet
