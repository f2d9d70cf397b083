// Package daemon runs crowsnest. It starts sources, matcher, engine, sinks and web, saves their
// state, reloads changed rules, and stops everything in order.
package daemon
