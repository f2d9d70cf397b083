// Package episodes decides which failures are open.
//
// An episode is one failure of one rule and key. The engine accepts hits and the
// watermarks of the sources, and reports which episodes opened, continued and ended.
// Positive conclusions (a count, a sequence) are drawn when a hit arrives. Negative
// ones (no recovery, quiet) wait for the watermark, so that a late line cannot make
// them false.
//
// The package has no clock, no goroutine, no I/O and no log. Time is a parameter, and the same
// calls give the same episodes.
package episodes
