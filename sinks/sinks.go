// Package sinks is what all receivers of episodes share: the contract and
// State, which keeps the newest word per key in front of one endpoint.
package sinks

import (
	"context"

	"crowsnest/episodes"
)

// Sink is told about episodes that changed.
type Sink interface {
	// Name is unique among the sinks of a process.
	Name() string
	// Notify takes changed episodes. It must not block and does not keep the
	// slice; maps in it are shared and read-only. Safe for concurrent use.
	Notify(eps []episodes.Episode)
	// Run delivers until ctx ends, then tries once more within drain and
	// returns. It has waited for every goroutine that it started.
	Run(ctx context.Context) error
	// Status is for the API and the metrics. Safe for concurrent use.
	Status() []EndpointStatus
}

// EndpointStatus is what is known of one receiver.
type EndpointStatus struct {
	Sink     string           `json:"sink"`
	Endpoint string           `json:"endpoint"` // without credentials
	Up       bool             `json:"up"`
	Error    string           `json:"last_error,omitempty"`
	Sent     int64            `json:"sent"`    // alerts accepted
	Failed   map[string]int64 `json:"failed"`  // alerts refused or not delivered, by reason
	Pending  int              `json:"pending"` // keys with news that was not accepted yet
	// ClockSkew is by how many seconds the endpoint's clock is ahead of ours, as
	// its answers say, to the second. Where it is behind by minutes, what we
	// send as resolved is still to come there.
	ClockSkew float64 `json:"clock_skew_seconds"`
}
