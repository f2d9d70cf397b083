// Package inforce holds the active rules and their program. It knows when each rule last saw a
// line, which rules a single node cannot decide, and which rules cost too much.
package inforce
