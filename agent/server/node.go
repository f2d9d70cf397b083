package server

import (
	"slices"
	"sync"
	"time"

	"crowsnest/internal/times"
	"crowsnest/matcher"
)

// drainedAfter is the time after which a node counts as drained if its agent announced its shutdown and its Node is
// cordoned. If only the agent's pod was deleted, the DaemonSet replaces the pod within seconds.
const drainedAfter = 30 * time.Second

// node is the state of one node. Its fields are guarded by Source.mu. busy is held while a
// message of the node is handled.
type node struct {
	busy sync.Mutex
	name string

	instance      string // random name of the agent's process; "" if no agent has sent a message yet
	accepted      uint64 // number of the newest batch that was accepted from this instance
	copied        uint64 // number of the newest batch in the state that Positions returned last
	savedSequence uint64 // number of the newest batch on the aggregator's disk

	known         bool      // whether the pipeline waits for the node's watermark
	hasObject     bool      // whether the API server once had a Node with this name
	lastMessageAt time.Time // time of the agent's newest message
	left          bool      // whether the agent announced its shutdown
	watermark     time.Time
	lagging       []matcher.LaggingStream // lagging streams; the slice is never changed in place
	clock         agentClock
	// clockSetAhead is the duration by which the node's clock was set ahead since its agent
	// started, as the agent reports.
	clockSetAhead time.Duration
	refusedAt     time.Time // time at which another agent with this name was last refused
	caller        caller    // authenticated identity of the agent

	conditions map[string]condition // conditions that the agent reported; the key is condition.Key
	rules      map[string]string    // digests of the agent's rules; the key is the rule's name; nil if not reported
	digest     string               // digest of the report that this instance sent; "" if there is no report
	idle       string               // reason that the agent reports for having nothing to read
	// unread are the selectors of rules that match none of the agent's streams, sorted. The
	// slice is never changed in place.
	unread []string
}

// isRemoved reports whether n is no longer among the known nodes. The caller holds mu.
func (s *Source) isRemoved(n *node) bool { return s.nodes[n.name] != n }

// hasExpired reports whether decisions no longer need to wait for the node. The caller holds mu.
func (s *Source) hasExpired(n *node, now time.Time) bool {
	silent := now.Sub(times.Max(n.lastMessageAt, s.restoredAt))
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
		// A missing Node object counts only if the object existed before. A token that the API server accepted proves
		// this too, because the token is bound to a Node.
		return (n.hasObject || !n.caller.reviewed.IsZero()) && (n.left || silent >= s.cfg.SilentAfter)
	}
	return false
}

const (
	clockSamples = 8 // number of messages that are used for an estimate
	// clockTolerance is the difference of two clocks up to which no correction is made. A correction has an error as
	// large as the delay of messages, so it would disorder the lines of nodes whose clocks agree.
	clockTolerance = 2 * time.Second
	// clockDelay is longer than any message takes to reach this process.
	clockDelay = 10 * time.Second
	// enoughSamples is the number of messages after which a decrease of the estimate is
	// believed. At least one of so many messages was not delayed.
	enoughSamples = 3
)

// agentClock estimates how far the clock of an agent is ahead of this process's clock. Both are steady clocks, which do
// not change when somebody sets the wall clock. An agent sends times of its steady clock.
type agentClock struct {
	// samples are the newest differences between the sending time and the arrival time. A delay makes a difference
	// smaller, so the largest one is closest to the true difference of the clocks.
	samples []time.Duration
	// correction is the correction that is in use. It changes only if the estimate moves by
	// clockTolerance, so that the time of a line does not change when the line is sent twice.
	correction time.Duration
}

// addSample adds the difference that was measured with one message.
func (c *agentClock) addSample(sample time.Duration) {
	if len(c.samples) == clockSamples {
		c.samples = slices.Delete(c.samples, 0, 1)
	}
	c.samples = append(c.samples, sample)
	moved := slices.Max(c.samples) - c.correction
	maybeSlow := moved < 0 && moved > -clockDelay && len(c.samples) < enoughSamples
	if moved.Abs() >= clockTolerance && !maybeSlow {
		c.correction += moved
	}
}

// clockShift returns the duration that must be added to a time of the node to get a time of
// this process's wall clock. now is the current time. The caller holds mu.
func (s *Source) clockShift(n *node, now time.Time) time.Duration {
	return s.steady.SetAhead(now) - n.clock.correction
}

// clockSkew returns how far the wall clock of a node is ahead of this process's wall clock,
// even if the difference is too small for a correction. The caller holds mu.
func (s *Source) clockSkew(n *node, now time.Time) time.Duration {
	ahead := n.clock.correction
	if len(n.clock.samples) > 0 {
		ahead = slices.Max(n.clock.samples)
	}
	return ahead + n.clockSetAhead - s.steady.SetAhead(now)
}
