// Package matcher finds the lines that match rules.
//
// Its only state is in streams. A Program is immutable. A Stream holds the labels of one log
// stream, the rules that may apply to it, its format and its incomplete lines. The package
// knows rules and log formats. It does not know what a match means, because that is the task of
// package episodes.
package matcher
