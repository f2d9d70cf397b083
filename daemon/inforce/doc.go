// Package inforce holds a set of rules that is matched: its program, when its rules last
// saw a line, which of them are off on a single node, and which cost too much.
package inforce
