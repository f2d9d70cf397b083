// Package replay runs rules over recorded lines in event time. It uses the production matcher and engine with a virtual
// clock. Inline tests, scans of files and comparisons of rule sets are based on it.
//
// A target is a set of rules that is run over the lines. A place is the cluster, node or pod from which a file came. A
// finding is a failure that lines show and a rule describes, but that did not become an alert.
package replay
