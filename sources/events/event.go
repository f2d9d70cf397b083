package events

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

const (
	maxMessage = 4 << 10
	maxValue   = 256
)

// event holds the used parts of an Event of events.k8s.io/v1.
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
	Type       string `json:"type"`
	Reason     string `json:"reason"`
	Note       string `json:"note"`
	Controller string `json:"reportingController"`
	Regarding  struct {
		Kind      string `json:"kind"`
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		UID       string `json:"uid"`
	} `json:"regarding"`

	// Of Events that were written in the old form.
	OldCount  int       `json:"deprecatedCount"`
	OldFirst  time.Time `json:"deprecatedFirstTimestamp"`
	OldLast   time.Time `json:"deprecatedLastTimestamp"`
	OldSource struct {
		Component string `json:"component"`
	} `json:"deprecatedSource"`
}

func readEvent(raw json.RawMessage) (*event, error) {
	var e event
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, fmt.Errorf("read an Event: %w", err)
	}
	return &e, nil
}

// namespace is that in which the Event was created.
func (e *event) namespace() string { return cmp.Or(e.Metadata.Namespace, "default") }

func (e *event) version() uint64 { return kube.VersionNumber(e.Metadata.Version) }

func (e *event) count() int { return max(e.Series.Count, e.OldCount, 1) }

// newest returns the time of the newest occurrence, at most now.
func (e *event) newest(now time.Time) time.Time {
	t := times.Later(times.Later(e.At, e.Series.Last), times.Later(e.OldFirst, e.OldLast))
	if t.IsZero() {
		t = e.Metadata.Created
	}
	if t.IsZero() {
		return now
	}
	return times.Earlier(t, now)
}

// line returns the line and whether a value was truncated.
func (e *event) line() (line string, truncated bool) {
	short := func(s string, n int) string {
		truncated = truncated || len(s) > n
		return text.Shorten(s, n)
	}
	about := e.Regarding
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
	pairs = append(pairs, "uid", short(about.UID, maxValue), "reporter", short(cmp.Or(e.Controller, e.OldSource.Component), maxValue),
		"count", strconv.Itoa(e.count()), "message", short(e.Note, maxMessage))
	return logline.Format("event", pairs...), truncated
}
