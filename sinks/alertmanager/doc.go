// Package alertmanager tells episodes to Alertmanagers.
//
// Alertmanagers do not gossip alerts, so every one of them is told everything,
// by a sender of its own: one that hangs never delays another. In front of each
// stands a sinks.State, which is what it still has to be told; no outage makes
// it grow.
//
// The package knows Alertmanager's API v2 and its manners: what it refuses, what
// it forgets when it restarts, and which alerts it would never notify of.
package alertmanager
