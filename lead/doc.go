// Package lead lets two processes share one task: one leads, and the other is its
// standby. An Elector decides who leads, by a Record that both can read and only one at a
// time can replace. The leader's checkpoints go to the standby's disk (Leader, Standby).
//
// Two promises hold together. Only one process leads: a leader stops by its own clock
// before another can take the lead. And whoever leads has everything that was confirmed:
// the Record names the processes whose disks have it, and another one takes the lead only
// if those do not come back.
package lead
