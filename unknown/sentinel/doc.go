// Package sentinel watches for failures that no rule describes.
//
// It takes the lines that report errors and that no rule matches, see matcher.Complaint. It
// remembers their patterns for each component, which is a container, unit or app in a
// namespace, however many replicas it has. Each component has at most one alert, which is
// called UnknownFailure and has level info. A pattern fires it if the pattern is new after an
// hour of reading the component, or if it persists for one object. The alert ends when its
// patterns are proved to be quiet.
//
// The state of a pattern consists of minima, maxima and sets of intervals of five minutes. It
// can be merged in any order and any number of times. So an agent only sends its state
// (Summary) and the aggregator merges it (Merge). The conclusions equal those of one process
// that reads all lines.
//
// All memory is bounded and shared among namespaces. A tenant who writes many patterns evicts
// only the tenant's own.
package sentinel
