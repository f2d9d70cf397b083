// Package lead runs a pair of processes for one task. One process leads and the other one is
// its standby. An Elector decides which process leads. It uses a Record that both can read and
// only one at a time can replace. The leader's checkpoints are copied to the standby's disk
// (see Leader and Standby).
//
// The package guarantees two things. First, only one process leads, because a leader stops by
// its own clock before another process can take the lead. Second, the leader has everything
// that was confirmed. The Record names the processes whose disks have it, and another process
// takes the lead only if these do not come back.
package lead
