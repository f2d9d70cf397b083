// Package sinks holds what all receivers of episodes share: the contract and
// State, which keeps the newest message per key for one endpoint.
package sinks

import (
	"context"

	"crowsnest/episodes"
)

// Sink is notified of changed episodes.
type Sink interface {
	Receiver
	// Notify accepts changed episodes. It must not block and does not keep the
	// slice; maps in it are shared and read-only. Safe for concurrent use.
	Notify(eps []episodes.Episode)
}

// Receiver is another process to which this one delivers.
type Receiver interface {
	// Name is unique among the receivers of a process.
	Name() string
	// Run delivers until ctx ends, then tries once more within the drain time
	// and returns. It waits for every goroutine that it started.
	Run(ctx context.Context) error
	// Status serves the API and the metrics. Safe for concurrent use.
	Status() []EndpointStatus
}

// EndpointStatus is the state of one receiver.
type EndpointStatus struct {
	Sink     string           `json:"sink"`
	Endpoint string           `json:"endpoint"` // without credentials
	Up       bool             `json:"up"`
	Error    string           `json:"last_error,omitempty"`
	Sent     int64            `json:"sent"`    // alerts accepted
	Failed   map[string]int64 `json:"failed"`  // alerts refused or not delivered, by reason
	Pending  int              `json:"pending"` // keys with a change that was not accepted yet
	// ClockSkew is by how many seconds the endpoint's clock is ahead of ours, to the
	// second, according to its answers. If it is minutes behind, the ends of resolved
	// alerts are still in its future.
	ClockSkew float64 `json:"clock_skew_seconds"`
}
