// Package alertmanager sends episodes to Alertmanagers.
//
// Alertmanagers do not exchange alerts, so every alert is sent to each of them. Each has its
// own sender, so one that hangs never delays another. A sender keeps what it still has to send
// in a sinks.State, which does not grow during an outage.
//
// The package knows Alertmanager's API v2 and its behaviour. This includes which requests
// Alertmanager refuses, what it forgets in a restart, and of which alerts it would never
// notify.
package alertmanager
