// Package replay runs rules over recorded lines in event time, with the
// production matcher and engine and a virtual clock: inline tests, scans of
// files and comparisons of rule sets.
package replay
