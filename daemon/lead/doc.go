// Package lead runs a pair of processes for one task. One process leads and the other one is its standby. An Elector
// decides which process leads. It uses a Record that both processes can read and only one at a time can replace. The
// leader's checkpoints are copied to the standby's disk (see Leader and Standby).
//
// The package guarantees two things. First, only one process leads at any time, because a leader stops by its own clock
// before another process can take the lead. Second, the leader has all confirmed checkpoints. The Record names the
// processes whose disks have these checkpoints. A process without them takes the lead only if those processes do not
// come back.
//
// A checkpoint is a copy of the leader's state. It is confirmed when it can no longer be lost (see Leader). A promise
// of the standby not to take the lead is valid for a limited time. A candidate is a process that takes part in an
// election.
package lead
