// Package web shows a running daemon: probes, metrics, an API in the manner of
// Prometheus, and pages that are readable without JavaScript.
//
// It reads copies through the functions of View and changes nothing but by the
// reload that it is given. Every byte that came out of a log is escaped. It
// does not know sources and sinks: the daemon translates what they report.
package web
