// Package matcher finds the lines that rules ask for.
//
// It is stateless but for what a stream has unfinished: a Program is immutable,
// a Stream remembers the labels of one log stream, the rules that may apply to
// it, its format and the parts of lines that are not complete yet. It knows
// rules and log formats. It does not know what a match means: that is package
// episodes.
package matcher
