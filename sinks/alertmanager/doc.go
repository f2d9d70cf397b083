// Package alertmanager sends episodes to Alertmanagers.
//
// Alertmanagers do not exchange alerts, so every alert is sent to each of them. Each
// Alertmanager has its own sender, so an Alertmanager that hangs does not delay the others. A
// sender keeps its unsent messages in a sinks.State, which does not grow during an outage.
//
// The package knows Alertmanager's API v2 and its behaviour. For example, it knows which requests Alertmanager refuses,
// that a restart loses alerts, and that very short alerts are never notified.
package alertmanager
