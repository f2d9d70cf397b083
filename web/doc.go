// Package web serves the probes, the metrics, a Prometheus-style API and the
// status pages of a running daemon. The pages are complete without JavaScript.
//
// It reads copies through the functions of View, and changes nothing except through
// Options.Reload. Pages escape every byte that comes from a log. The package does not know
// sources and sinks, because the daemon translates their status.
package web
