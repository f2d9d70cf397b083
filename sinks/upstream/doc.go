// Package upstream is the sending side of an agent: it sends the hits of a node to
// the aggregator and concludes nothing.
//
// Hits are sent in numbered batches. The agent keeps a batch until the aggregator
// has it on disk, and sends it again after any failure. The kept batches are
// bounded; beyond the bound the agent stops reading: the log files are the buffer.
// Checkpoint and Acked tie the agent's positions to that: positions may be saved only when
// the batches before them are safe.
package upstream
