// Package hits is the seam between a node and the aggregator: hits as they
// travel over the network.
//
// A Builder folds the hits of some moments into a batch: what equal hits share
// (rule, part, values, labels of the stream) is written once, and each line adds
// its time, its fingerprint and, for some, its text. Nothing that decides
// anything is left out, and the order of reading is kept, so the engine behind a
// Batch concludes what it would have concluded of the hits themselves. A Message
// carries a batch or, without one, only a proof of reading.
//
// The package has no clock and does no I/O. What it reads comes from a peer:
// every size is bounded before memory is taken.
package hits
