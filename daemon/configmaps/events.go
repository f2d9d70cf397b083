package configmaps

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"crowsnest/internal/kube"
	"crowsnest/internal/pause"
	"crowsnest/internal/text"
)

// Reasons of the Events on a ConfigMap.
const (
	reasonRefused  = "RulesRefused"
	reasonAccepted = "RulesAccepted"
)

const (
	eventEvery = 200 * time.Millisecond // shortest interval between two Events
	// settleEvent is the shortest interval between two Events on one ConfigMap, and also the time after which an Event
	// that could not be written is tried again.
	settleEvent = 10 * time.Second
	// repeatEvent is the interval at which an Event is repeated while the files are refused. API servers delete Events
	// after an hour.
	repeatEvent = time.Hour
	maxMessage  = 1000 // the API server refuses messages of 1024 bytes
	maxName     = 200  // maximum length in bytes of the part of an Event's name that comes from the ConfigMap
)

// report holds what is known about the acceptance of a ConfigMap, and what the Events on it say.
type report struct {
	judged bool   // whether refusal is about the current content
	reason string // why files were refused; empty if all files are active

	written   string // reason in the last Event; empty if there was no Event, or if it said that the files are active
	writtenAt time.Time
	tryAt     time.Time // earliest time of the next Event
}

// Report sets which files of the last result of Files the loader has refused, with the reasons.
func (w *Watcher) Report(refused map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.eachConfigMap() {
		if c.current == nil {
			continue
		}
		var reasons []string
		for _, f := range c.current.files {
			if why := refused[f.Name]; why != "" {
				reasons = append(reasons, why)
			}
		}
		c.report.judged, c.report.reason = true, strings.Join(slices.Compact(reasons), "\n")
	}
}

// writeEvents writes Events that are due until ctx ends.
func (w *Watcher) writeEvents(ctx context.Context) {
	for pause.Sleep(ctx, eventEvery, nil) {
		if w.opt.WritesEvents != nil && !w.opt.WritesEvents() {
			continue
		}
		c, object, reason, message := w.nextEvent()
		if c == nil {
			continue
		}
		err := w.postEvent(ctx, object, reason, message)
		w.mu.Lock()
		w.eventError = ""
		if err != nil {
			w.eventError = kube.ExplainError(err, "the service account may not write Events: grant create of events in all namespaces", "an Event about refused rules cannot be written")
		} else if c.report.written = ""; reason == reasonRefused {
			c.report.written = message
		}
		if err == nil {
			c.report.writtenAt = w.opt.Now()
			w.events[reason]++
		}
		w.mu.Unlock()
	}
}

// nextEvent returns a ConfigMap whose Event is due, and the content of the Event. It returns nil if no Event is due.
func (w *Watcher) nextEvent() (c *configMap, object objectMeta, reason, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.opt.Now()
	for c := range w.eachConfigMap() {
		r := &c.report
		message := describe(r.reason)
		isDue := message != r.written || message != "" && now.Sub(r.writtenAt) >= repeatEvent
		if !r.judged || !isDue || now.Before(r.tryAt) {
			continue
		}
		r.tryAt = now.Add(settleEvent)
		if message == "" {
			return c, c.object, reasonAccepted, "All rules of the ConfigMap are active."
		}
		return c, c.object, reasonRefused, message
	}
	return nil, objectMeta{}, "", ""
}

// describe returns the message of an Event about a refusal. It returns "" if nothing was refused.
func describe(reason string) string {
	if reason == "" {
		return ""
	}
	return text.Shorten(reason, maxMessage)
}

// postEvent creates an Event. Its name follows from its content and the hour, so that a restarted process, or the
// other process of a pair, does not write the same Event again.
func (w *Watcher) postEvent(ctx context.Context, m objectMeta, reason, message string) error {
	now := w.opt.Now().UTC()
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%s\x00%s\x00%s\x00%d", m.UID, m.Version, reason, message, now.Unix()/int64(repeatEvent/time.Second))
	name := fmt.Sprintf("%s.%016x", strings.TrimRight(m.Name[:min(len(m.Name), maxName)], "-."), h.Sum64())
	kind, stamp := "Normal", now.Format(time.RFC3339)
	if reason == reasonRefused {
		kind = "Warning"
	}
	object := map[string]any{
		"apiVersion": "v1", "kind": "Event",
		"metadata":       map[string]any{"name": name, "namespace": m.Namespace},
		"involvedObject": map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": m.Namespace, "name": m.Name, "uid": m.UID, "resourceVersion": m.Version},
		"reason":         reason, "message": message, "type": kind, "count": 1, "firstTimestamp": stamp, "lastTimestamp": stamp,
		"source": map[string]any{"component": "crowsnest"}, "reportingComponent": "crowsnest", "reportingInstance": "crowsnest",
	}
	var answer struct{}
	err := w.client.Create(ctx, "/api/v1/namespaces/"+m.Namespace+"/events", object, &answer)
	if kube.StatusCode(err) == http.StatusConflict { // it exists
		return nil
	}
	return err
}

// Stats are counters of the watcher.
type Stats struct {
	Up         bool // whether the ConfigMaps can be read now
	ConfigMaps int
	Events     map[string]int64 // number of written Events, by reason
	EventError string           // reason why the last Event could not be written; empty if it could
}

// Stats returns the counters.
func (w *Watcher) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for range w.eachConfigMap() {
		n++
	}
	return Stats{Up: w.failure == "" && w.IsListed(), ConfigMaps: n, Events: maps.Clone(w.events), EventError: w.eventError}
}
