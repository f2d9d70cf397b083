// Package agents is the receiving side of an aggregator: it accepts the hits that
// agents find on their nodes. Each node is a member of the source with a watermark
// of its own.
//
// A batch is accepted once and in order, however often it is sent. Each answer
// names the batches that the saved state contains; the agent keeps the others and
// sends them again after a restart of the aggregator. Input from the network is
// bounded before memory is allocated for it.
package agents
