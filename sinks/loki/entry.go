package loki

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grafana/loki/pkg/push"
	"github.com/prometheus/common/model"

	"crowsnest/sinks"
	"crowsnest/sinks/internal/delivery"
)

// oldest is the largest age of an entry. Loki accepts an entry only if it is at most an hour
// older than the newest entry of its stream, and not far in the future.
const oldest = 45 * time.Minute

const maxMetadata = 40

type entry struct {
	labels   model.LabelSet
	time     time.Time
	line     string
	metadata push.LabelsAdapter
}

func (e entry) size() int {
	n := 64 + len(e.line)
	for name, value := range e.labels {
		n += len(name) + len(value) + 8
	}
	for _, m := range e.metadata {
		n += len(m.Name) + len(m.Value) + 8
	}
	return n
}

// summary is the content of a line in JSON. It does not contain the log line of the alert,
// because a text search in Loki would then find that line twice.
type summary struct {
	Event    string            `json:"event"`
	Alert    string            `json:"alertname"`
	Severity string            `json:"severity,omitempty"`
	Summary  string            `json:"summary,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Count    int64             `json:"count"`
	StartsAt time.Time         `json:"starts_at"`
	LastSeen time.Time         `json:"last_seen,omitzero"`
	EndsAt   time.Time         `json:"ends_at,omitzero"`
	Reason   string            `json:"reason,omitempty"`
	Runbook  string            `json:"runbook_url,omitempty"`
	URL      string            `json:"url,omitempty"`
}

// newEntry returns the entry for a message. A repeated message has the same entry, which Loki stores only once.
func (c Config) newEntry(m sinks.Message, now time.Time) (entry, error) {
	ep := m.Episode
	if strings.TrimSpace(ep.Labels["alertname"]) == "" {
		return entry{}, errors.New("the alert has no alertname")
	}
	labels := delivery.Labels(ep.Labels, c.ExternalLabels)
	s, at := c.summarize(m, labels)
	e := entry{labels: model.LabelSet{"service_name": "crowsnest"}, time: at}
	for name, value := range c.Labels {
		e.labels[model.LabelName(name)] = model.LabelValue(value)
	}
	for _, name := range []string{"cluster", "severity"} {
		if labels[name] != "" {
			e.labels[model.LabelName(name)] = model.LabelValue(labels[name])
		}
	}
	if e.time.After(now) || now.Sub(e.time) > oldest {
		e.time = now // Loki would refuse an older time; the line itself contains the times of the alert
	}
	e.metadata = metadata(m, s, labels)
	var err error
	e.line, err = s.formatText(c.Format)
	return e, err
}

// summarize returns the content of the line and the time of the event that it reports.
func (c Config) summarize(m sinks.Message, labels map[string]string) (summary, time.Time) {
	ep, at := m.Episode, cmp.Or(m.Episode.FiredAt, m.Episode.StartsAt)
	text := delivery.Annotations(ep.Annotations)
	s := summary{
		Event: delivery.Event(m), Alert: labels["alertname"], Severity: labels["severity"], Summary: text["summary"],
		Labels: map[string]string{}, Count: ep.Count, StartsAt: ep.StartsAt.UTC(), LastSeen: ep.LastSeen.UTC(), Runbook: text["runbook_url"],
		URL: delivery.Link(c.ExternalURL, ep.Fingerprint),
	}
	for name, value := range labels {
		if name != "alertname" && name != "severity" {
			s.Labels[name] = value
		}
	}
	switch {
	case m.Resolved:
		s.Reason, s.EndsAt, at = string(ep.Reason), ep.EndsAt.UTC(), cmp.Or(ep.ConcludedAt, ep.EndsAt)
	case !m.New:
		at = cmp.Or(ep.LastSeen, ep.FiredAt)
	}
	return s, at.UTC()
}

func (s summary) formatText(format string) (string, error) {
	if format != formatLogfmt {
		b, err := json.Marshal(s)
		return string(b), err
	}
	var b strings.Builder
	put := func(name, value string) {
		if value == "" {
			return
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r == '"' || r == '=' || r == '\\' || !strconv.IsPrint(r) }) {
			value = strconv.Quote(value)
		}
		b.WriteString(name + "=" + value)
	}
	put("event", s.Event)
	put("alertname", s.Alert)
	put("severity", s.Severity)
	put("summary", s.Summary)
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		put(name, s.Labels[name])
	}
	put("count", strconv.FormatInt(s.Count, 10))
	put("starts_at", formatTime(s.StartsAt))
	put("last_seen", formatTime(s.LastSeen))
	put("ends_at", formatTime(s.EndsAt))
	put("reason", s.Reason)
	put("runbook_url", s.Runbook)
	put("url", s.URL)
	return b.String(), nil
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

// metadata returns the structured metadata. People can filter by it, as in `{service_name="crowsnest"} |
// alertname="X"`. It also contains the alert's newest log line. A text search in Loki ignores metadata, so it finds
// that log line only in its own stream.
func metadata(m sinks.Message, s summary, labels map[string]string) push.LabelsAdapter {
	ep := m.Episode
	out := push.LabelsAdapter{}
	seen := map[string]bool{}
	put := func(name, value string) {
		if value != "" && !seen[name] && len(out) < maxMetadata {
			seen[name] = true
			out = append(out, push.LabelAdapter{Name: name, Value: value})
		}
	}
	put("alertname", s.Alert)
	put("event", s.Event)
	put("fingerprint", ep.Fingerprint.String())
	put("pack", delivery.Pack(ep))
	put("starts_at", formatTime(s.StartsAt))
	put("line", delivery.Line(ep.Line))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if name != "severity" && name != "cluster" {
			put(name, labels[name])
		}
	}
	return out
}
