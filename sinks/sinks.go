// Package sinks contains the parts that all receivers of episodes share: the interface Sink,
// and State, which keeps the newest message of each alert for one endpoint.
package sinks

import (
	"context"
	"time"

	"crowsnest/episodes"
)

// Sink is notified of changed episodes.
type Sink interface {
	Receiver
	// Notify accepts changed episodes. It must not block, and does not retain the slice. The
	// maps in it are shared and read-only. It is safe for concurrent use.
	Notify(eps []episodes.Episode)
}

// Receiver is another process to which this process delivers.
type Receiver interface {
	// Name returns a name that is unique among the receivers of a process.
	Name() string
	// Run delivers until ctx ends. Then it tries once more within the drain time, and returns.
	// It waits for all goroutines that it started.
	Run(ctx context.Context) error
	// Status returns the states for the API and the metrics. It is safe for concurrent use.
	Status() []EndpointStatus
}

// DiscoveryStatus is the state of a lookup that finds receivers.
type DiscoveryStatus struct {
	Sink      string
	Discovery string // DNS name with the type of its records, or pattern of files
	Up        bool   // whether the last lookup found receivers
	Error     string // error of the last lookup; empty if it succeeded or there was none yet
	Targets   int    // number of receivers that the last successful lookup found
	Failures  int64
	// FailingSince is the time of the first failure in the current series of failed lookups. It is zero if the last
	// lookup succeeded.
	FailingSince time.Time
}

// EndpointStatus is the state of one receiver.
type EndpointStatus struct {
	Sink     string           `json:"sink"`
	Endpoint string           `json:"endpoint"` // name of the endpoint, without credentials
	Up       bool             `json:"up"`
	Error    string           `json:"last_error,omitempty"`
	Sent     int64            `json:"sent"`   // number of accepted alerts
	Failed   map[string]int64 `json:"failed"` // number of alerts that were refused or not delivered, by reason
	// Pending is the number of alerts with a change that the endpoint has not accepted yet.
	Pending int `json:"pending"`
	// ClockSkew is the number of whole seconds by which the endpoint's clock is ahead of ours, according to its
	// responses. If that clock is minutes behind, the ends of resolved alerts are still in its future.
	ClockSkew float64 `json:"clock_skew_seconds"`
}
