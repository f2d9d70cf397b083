// Package agents is the receiving side of an aggregator: it takes the hits that
// agents find on their nodes, each node being a source of its own for whatever
// waits for a proof of reading.
//
// A batch is taken once and in order, however often it is sent. An agent is told
// which batches the saved state holds, and keeps the others: after a restart of
// the aggregator they come again. What comes from the network is bounded before
// memory is taken for it.
package agents
