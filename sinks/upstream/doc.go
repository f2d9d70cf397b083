// Package upstream is the sending side of an agent: it hands the hits of a node
// to the aggregator and concludes nothing.
//
// Hits become batches with a number each. A batch is kept until the aggregator
// has it on its disk, and sent again after whatever went wrong; what is kept is
// bounded, and beyond the bound the agent stops reading: the log files are the
// buffer. Cut and Acked tie the positions of the agent to that: positions may be
// saved only when the batches before them are safe.
package upstream
