package server

import (
	"slices"
	"sync"
	"time"

	"crowsnest/internal/times"
	"crowsnest/matcher"
)

// drainedAfter is the time after the goodbye of an agent on a cordoned Node at which the node
// counts as drained. The controller of a DaemonSet replaces a pod that was only deleted within
// seconds.
const drainedAfter = 30 * time.Second

// node is the state of one node. Source.mu guards its fields; busy is held while one of its
// messages is handled.
type node struct {
	busy sync.Mutex
	name string

	instance string // random name of its agent's process; "" if there was none yet
	accepted uint64 // newest batch of the instance
	copied   uint64 // newest batch in the last result of Positions
	saved    uint64 // newest batch on disk

	known     bool      // The pipeline waits for its watermark.
	hasObject bool      // A Node of its name was seen.
	heard     time.Time // time of the newest message
	left      bool      // Its agent said goodbye.
	watermark time.Time
	lagging   []matcher.LaggingStream // The slice does not change.
	clock     agentClock
	clockSet  time.Duration // how far the node's clock was set since its agent started, as reported
	refused   time.Time     // time at which another agent of this name was last refused
	who       caller        // credentials of its agent

	conditions map[string]condition // reported conditions by key
	rules      map[string]string    // reported rule digests by name; nil if there are none
	digest     string               // digest of the instance's report; "" if there is none
	idle       string               // reported reason why its agent has nothing to read
	unread     []string             // sorted selectors that none of its streams satisfies; the slice does not change
}

// isRemoved reports whether the node is no longer waited for. The caller holds mu.
func (s *Source) isRemoved(n *node) bool { return s.nodes[n.name] != n }

// hasExpired reports whether a node need not be waited for any longer. The caller holds mu.
func (s *Source) hasExpired(n *node, now time.Time) bool {
	silent := now.Sub(times.Later(n.heard, s.restoredAt))
	if silent >= s.cfg.ForgetAfter {
		return true
	}
	switch s.watch.presence(n.name) {
	case present:
		n.hasObject = true
	case cordoned:
		n.hasObject = true
		return n.left && silent >= drainedAfter
	case absent:
		// A name that never belonged to a Node proves nothing. A token that the API server
		// reviewed is bound to a Node.
		return (n.hasObject || !n.who.reviewed.IsZero()) && (n.left || silent >= s.cfg.SilentAfter)
	}
	return false
}

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
	// ahead is the active correction. It changes only when the estimate has moved by clockTolerance, so the times
	// of lines that are sent twice stay the same.
	ahead time.Duration
}

// addSample records the difference of one message.
func (c *agentClock) addSample(sample time.Duration) {
	if len(c.samples) == clockSamples {
		c.samples = slices.Delete(c.samples, 0, 1)
	}
	c.samples = append(c.samples, sample)
	moved := slices.Max(c.samples) - c.ahead
	maybeSlow := moved < 0 && moved > -clockDelay && len(c.samples) < enoughSamples
	if moved.Abs() >= clockTolerance && !maybeSlow {
		c.ahead += moved
	}
}

// shift returns the duration that turns times of a node into times of this process's wall clock at now. The caller
// holds mu.
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
