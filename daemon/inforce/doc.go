// Package inforce holds the active rules and the matcher program compiled from them. It records when each rule last saw
// a line, and finds the rules that need the logs of several nodes and the rules that cost too much CPU time.
package inforce
