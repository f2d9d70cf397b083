// Package daemon runs crowsnest: it starts sources, matcher, engine, sinks and web,
// saves their state, loads rules again when they change, and stops in order.
package daemon
