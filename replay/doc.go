// Package replay runs rules over recorded lines in event time. It uses the production matcher
// and engine with a virtual clock. Inline tests, scans of files and comparisons of rule sets
// are based on it.
package replay
