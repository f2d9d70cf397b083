// Package podspec decodes the containers of a Pod and their states.
package podspec

import (
	"slices"
	"time"
)

// Spec holds the fields of a Pod's spec that crowsnest uses.
type Spec struct {
	Node       string      `json:"nodeName"`
	Init       []Container `json:"initContainers"`
	Containers []Container `json:"containers"`
	Ephemeral  []Container `json:"ephemeralContainers"`
}

// Container is a container that the spec asks for. Its name is unique in the Pod.
type Container struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}

// All returns the containers of all three kinds.
func (s Spec) All() []Container { return slices.Concat(s.Init, s.Containers, s.Ephemeral) }

// Statuses holds the fields of a Pod's status that crowsnest uses.
type Statuses struct {
	Init       []Status `json:"initContainerStatuses"`
	Containers []Status `json:"containerStatuses"`
	Ephemeral  []Status `json:"ephemeralContainerStatuses"`
}

// Status is the state of the newest instance of a container, and the last state of the instance before it.
type Status struct {
	Name     string `json:"name"`
	Image    string `json:"image"`
	ID       string `json:"containerID"`
	Restarts int32  `json:"restartCount"`
	State    State  `json:"state"`
	Last     State  `json:"lastState"`
}

// State is the state of one instance. At most one of its fields is not nil.
type State struct {
	Waiting *struct {
		Reason  string `json:"reason"`
		Message string `json:"message"`
	} `json:"waiting"`
	Running *struct {
		Started time.Time `json:"startedAt"`
	} `json:"running"`
	Terminated *Terminated `json:"terminated"`
}

// Terminated describes an instance that has ended.
type Terminated struct {
	ID       string    `json:"containerID"`
	Exit     int32     `json:"exitCode"`
	Reason   string    `json:"reason"`
	Message  string    `json:"message"`
	Started  time.Time `json:"startedAt"`
	Finished time.Time `json:"finishedAt"`
}

// All returns the states of the containers of all three kinds.
func (s Statuses) All() []Status { return slices.Concat(s.Init, s.Containers, s.Ephemeral) }
