// Package hits is the protocol between a node and the aggregator: hits as they travel
// over the network.
//
// A Builder folds the hits of a short time into a batch. What equal hits share (rule,
// part, values, labels of the stream) is written once; each line adds its time, its
// fingerprint and, for some, its text. A batch keeps everything that affects decisions,
// and the reading order, so the engine draws the same conclusions from a Batch as from
// the hits themselves. A Message carries a batch or, without one, only a watermark.
//
// The package has no clock and does no I/O. Its input comes from a peer: it checks
// every size before it allocates memory.
package hits
