// Package episodes decides which failures are open.
//
// An episode is one failure of one rule and key. The engine takes hits, is told
// up to which time the logs are proved to be read, and says which episodes
// opened, went on and ended. Positive conclusions (a count, a sequence) are
// drawn when a hit arrives; negative ones (no recovery, quiet) only behind the
// watermark, so that a late line cannot make them false.
//
// The package has no clock, no goroutine, no I/O and no log: time is a
// parameter, and the same calls give the same episodes.
package episodes
