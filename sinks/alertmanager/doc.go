// Package alertmanager sends episodes to Alertmanagers.
//
// Alertmanagers do not gossip alerts, so each of them is sent everything, by a
// sender of its own: one that hangs never delays another. Each sender has a
// sinks.State, which holds what is still to be sent; no outage makes it grow.
//
// The package knows Alertmanager's API v2 and its behaviour: what it refuses, what
// it forgets when it restarts, and which alerts it would never notify of.
package alertmanager
