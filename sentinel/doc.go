// Package sentinel watches for failures that no rule describes.
//
// It takes the lines that complain and that no rule matches (matcher.Complaint), and
// remembers their patterns for each component: a container, unit or app in a namespace,
// however many replicas it has. A pattern becomes an alert of level info, UnknownFailure,
// one for each component, if it is new after an hour of reading that component, or if it
// persists for one object. The alert ends when the patterns are proved to be quiet.
//
// What is remembered of a pattern can be merged in any order and any number of times:
// minima, maxima and sets of intervals of five minutes. So an agent only sends what it
// remembers (Summary), the aggregator merges it (Merge), and the conclusions are those of
// one process that reads all lines.
//
// All memory is bounded and shared among namespaces: a tenant who writes many patterns
// pushes out its own.
package sentinel
