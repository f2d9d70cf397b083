package objects

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"crowsnest/internal/text"
	"crowsnest/internal/times"
	"crowsnest/kube"
	"crowsnest/sources/internal/logline"
)

// Limits of the values of an Event in bytes. Anyone may have written their texts.
const (
	maxNote  = 4 << 10
	maxValue = 256
)

// event holds the used fields of an Event of events.k8s.io/v1 or v1. kubectl and support
// bundles write v1.
type event struct {
	Metadata struct {
		Namespace string    `json:"namespace"`
		UID       string    `json:"uid"`
		Version   string    `json:"resourceVersion"`
		Created   time.Time `json:"creationTimestamp"`
	} `json:"metadata"`
	At     time.Time `json:"eventTime"`
	Series struct {
		Count int       `json:"count"`
		Last  time.Time `json:"lastObservedTime"`
	} `json:"series"`
	Type       string         `json:"type"`
	Reason     string         `json:"reason"`
	Note       string         `json:"note"`
	Controller string         `json:"reportingController"`
	Regarding  eventReference `json:"regarding"`

	// An Event that was created as v1 has these fields when it is read as events.k8s.io/v1.
	OldCount  int         `json:"deprecatedCount"`
	OldFirst  time.Time   `json:"deprecatedFirstTimestamp"`
	OldLast   time.Time   `json:"deprecatedLastTimestamp"`
	OldSource eventSource `json:"deprecatedSource"`

	// These fields belong to v1.
	Involved  eventReference `json:"involvedObject"`
	Message   string         `json:"message"`
	First     time.Time      `json:"firstTimestamp"`
	Last      time.Time      `json:"lastTimestamp"`
	Count     int            `json:"count"`
	Component string         `json:"reportingComponent"`
	Source    eventSource    `json:"source"`
}

// eventReference names the object that an Event is about.
type eventReference struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

type eventSource struct {
	Component string `json:"component"`
}

func readEvent(in json.RawMessage) (*event, error) {
	var e event
	if err := json.Unmarshal(in, &e); err != nil {
		return nil, fmt.Errorf("read an Event: %w", err)
	}
	return &e, nil
}

// RecordedEvent returns the line of an Event from a file, the namespace of its stream, and its
// time, which is at most now. The Event has the form of events.k8s.io/v1 or v1.
func RecordedEvent(in json.RawMessage, now time.Time) (namespace, line string, at time.Time, err error) {
	e, err := readEvent(in)
	if err != nil {
		return "", "", time.Time{}, err
	}
	line, _ = e.line()
	return e.namespace(), line, e.newestTime(now), nil
}

// namespace returns the namespace in which the Event was created.
func (e *event) namespace() string { return cmp.Or(e.Metadata.Namespace, "default") }

func (e *event) version() uint64 { return kube.VersionNumber(e.Metadata.Version) }

func (e *event) count() int { return max(e.Series.Count, e.OldCount, e.Count, 1) }

// newestTime returns the time of the newest occurrence, at most now.
func (e *event) newestTime(now time.Time) time.Time {
	var newest time.Time
	for _, at := range []time.Time{e.At, e.Series.Last, e.OldFirst, e.OldLast, e.First, e.Last} {
		newest = times.Later(newest, at)
	}
	newest = cmp.Or(newest, e.Metadata.Created, now)
	return times.Earlier(newest, now)
}

// line returns the line of the Event, and whether a value was truncated.
func (e *event) line() (line string, truncated bool) {
	short := func(s string, n int) string {
		truncated = truncated || len(s) > n
		return text.Shorten(s, n)
	}
	about := cmp.Or(e.Regarding, e.Involved)
	name := short(about.Name, maxValue)
	object := name
	if about.Namespace != "" {
		object = short(about.Namespace, maxValue) + "/" + name
	}
	pairs := []string{
		"type", short(e.Type, maxValue), "reason", short(e.Reason, maxValue), "kind", short(about.Kind, maxValue), "object", object, "name", name,
	}
	switch about.Kind {
	case "Pod":
		pairs = append(pairs, "pod", name)
	case "Node":
		pairs = append(pairs, "node", name)
	}
	reporter := cmp.Or(e.Controller, e.Component, e.OldSource.Component, e.Source.Component)
	pairs = append(pairs, "uid", short(about.UID, maxValue), "reporter", short(reporter, maxValue),
		"count", strconv.Itoa(e.count()), "message", short(cmp.Or(e.Note, e.Message), maxNote))
	return logline.Format("event", pairs...), truncated
}
