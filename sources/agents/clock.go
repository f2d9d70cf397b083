package agents

import (
	"slices"
	"time"
)

const (
	// clockSamples is the number of messages that an estimate of a clock rests on.
	clockSamples = 8
	// clockTolerance is the difference of two clocks that is not corrected. A correction is as inexact as messages
	// are slow, so it would disorder the lines of nodes whose clocks agree.
	clockTolerance = 2 * time.Second
	// clockDelay is longer than a message takes from its agent to this process.
	clockDelay = 10 * time.Second
	// enoughSamples is the number of messages after which one of them was fast.
	enoughSamples = 3
)

// agentClock estimates how far the clock of an agent is ahead of this process. Neither of the two clocks is ever set:
// an agent sends the times of its steady clock, and they are compared with the steady clock of the source.
type agentClock struct {
	// samples are the newest differences between the time at which a message was sent and the time at which it
	// arrived. A slow message makes the agent look further behind than it is, so the largest one is the best.
	samples []time.Duration
	// ahead is the correction in force. It changes only when the estimate has moved by clockTolerance, so the times
	// of lines that are sent twice stay the same.
	ahead time.Duration
}

// hear records the difference of one message.
func (c *agentClock) hear(sample time.Duration) {
	if len(c.samples) == clockSamples {
		c.samples = slices.Delete(c.samples, 0, 1)
	}
	c.samples = append(c.samples, sample)
	moved := slices.Max(c.samples) - c.ahead
	switch {
	case moved.Abs() < clockTolerance:
	case moved < 0 && moved > -clockDelay && len(c.samples) < enoughSamples: // the first messages may have been slow
	default:
		c.ahead += moved
	}
}

// restart forgets the messages of an agent that was replaced by another process on the same node.
func (c *agentClock) restart() { c.samples = nil }

// shift returns what to add to the times of a node for times of the wall clock of this process at now. The caller holds
// mu.
func (s *Source) shift(n *node, now time.Time) time.Duration {
	return s.steady.Ahead(now) - n.clock.ahead
}

// skew returns how far the clock of a node is ahead of the wall clock of this process, corrected or not. The caller
// holds mu.
func (s *Source) skew(n *node, now time.Time) time.Duration {
	ahead := n.clock.ahead
	if len(n.clock.samples) > 0 {
		ahead = slices.Max(n.clock.samples)
	}
	return ahead + n.clockSet - s.steady.Ahead(now)
}
