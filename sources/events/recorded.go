package events

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"
)

// recorded is an Event in either form: that of events.k8s.io/v1 or that of v1, which
// kubectl and support bundles write.
type recorded struct {
	event

	Involved  json.RawMessage `json:"involvedObject"`
	Message   string          `json:"message"`
	First     time.Time       `json:"firstTimestamp"`
	Last      time.Time       `json:"lastTimestamp"`
	Count     int             `json:"count"`
	Component string          `json:"reportingComponent"`
	Source    struct {
		Component string `json:"component"`
	} `json:"source"`
}

// Recorded returns the line of an Event from a file, in the form of events.k8s.io/v1 or
// of v1, with the namespace of its stream and its time, which is at most now.
func Recorded(in json.RawMessage, now time.Time) (namespace, line string, at time.Time, err error) {
	var r recorded
	if err := json.Unmarshal(in, &r); err != nil {
		return "", "", time.Time{}, fmt.Errorf("read an Event: %w", err)
	}
	if r.Involved != nil {
		if err := json.Unmarshal(r.Involved, &r.Regarding); err != nil {
			return "", "", time.Time{}, fmt.Errorf("read involvedObject of an Event: %w", err)
		}
		r.Note, r.OldCount, r.OldFirst, r.OldLast = r.Message, r.Count, r.First, r.Last
		r.Controller = cmp.Or(r.Controller, r.Component)
		r.OldSource.Component = r.Source.Component
	}
	line, _ = r.line()
	return r.namespace(), line, r.newest(now), nil
}
