// Package matcher finds the lines that match rules.
//
// Its only state is in streams: a Program is immutable; a Stream holds the labels of
// one log stream, the rules that may apply to it, its format and its incomplete lines.
// The package knows rules and log formats. It does not know what a match means: that is
// package episodes.
package matcher
