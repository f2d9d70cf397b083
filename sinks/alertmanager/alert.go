package alertmanager

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-openapi/strfmt"
	"github.com/prometheus/alertmanager/api/v2/models"

	"crowsnest/episodes"
	"crowsnest/redact"
	"crowsnest/sinks"
	"crowsnest/sinks/internal/delivery"
)

// toAlert maps a word to the alert that tells it at now, when the receiver's
// clock shows there. Times are such that no step of a clock makes an alert that
// is refused or taken for what it is not: startsAt <= now < endsAt while firing,
// startsAt <= endsAt <= now when resolved, by both clocks. Both times are always
// set: an unset one would be sent as year 1.
func (c Config) toAlert(m sinks.Message, now, there time.Time) (*models.PostableAlert, error) {
	ep := m.Episode
	labels, err := c.labels(ep)
	if err != nil {
		return nil, err
	}
	now = now.UTC()
	earliest := earlier(now, there.UTC())
	start := notAfter(ep.StartsAt, earliest)
	end := later(now, there.UTC()).Add(c.keptFor(ep))
	if m.Resolved {
		end = later(notAfter(ep.EndsAt, earliest), start)
	}
	return &models.PostableAlert{
		StartsAt:    strfmt.DateTime(start),
		EndsAt:      strfmt.DateTime(end),
		Annotations: annotations(ep.Annotations),
		Alert:       models.Alert{Labels: labels, GeneratorURL: c.link(ep.Fingerprint)},
	}, nil
}

// keptFor is how long an Alertmanager keeps an alert as firing without hearing of
// it again. A heartbeat that outlives its sender would feed a dead man's switch.
func (c Config) keptFor(ep episodes.Episode) time.Duration {
	if ep.Heartbeat {
		return heartbeatResends * c.ResendDelay
	}
	return c.EndsAfter
}

// notAfter returns t in UTC, or now where t is later or not set.
func notAfter(t, now time.Time) time.Time {
	if t.IsZero() || t.After(now) {
		return now
	}
	return t.UTC()
}

// link is the address of our page of an episode. Without a base there is none:
// an Alertmanager refuses the whole request for one that is no URI.
func (c Config) link(fp episodes.Fingerprint) strfmt.URI {
	if c.ExternalURL == "" {
		return ""
	}
	return strfmt.URI(c.ExternalURL + "/episodes/" + fp.String())
}

// labels returns a copy of the episode's labels with the external ones. They
// are the alert's identity: what would have to be changed is refused.
func (c Config) labels(ep episodes.Episode) (models.LabelSet, error) {
	if strings.TrimSpace(ep.Labels["alertname"]) == "" {
		return nil, errors.New("it has no alertname")
	}
	out := models.LabelSet{}
	for name, value := range ep.Labels {
		value = labelText(value)
		switch {
		case value == "":
			continue // the same as absent
		case !labelName.MatchString(name) || len(name) > maxValue:
			return nil, fmt.Errorf("%q is no label name", delivery.Truncate(name, 64))
		case len(value) > maxValue:
			return nil, fmt.Errorf("label %s has %d bytes, more than %d", name, len(value), maxValue)
		}
		out[name] = value
	}
	if len(out) > maxLabels {
		return nil, fmt.Errorf("it has %d labels, more than %d", len(out), maxLabels)
	}
	for name, value := range c.ExternalLabels {
		if _, has := out[name]; !has {
			out[name] = value
		}
	}
	return out, nil
}

// annotations returns a copy in which everything can be sent: they are for
// people, so a part is better than none.
func annotations(in map[string]string) models.LabelSet {
	out := models.LabelSet{}
	for _, name := range byImportance(in) {
		if in[name] != "" && labelName.MatchString(name) && len(name) <= maxValue && len(out) < maxAnnotations {
			out[name] = delivery.Truncate(annotationText(name, in[name]), maxAnnotation)
		}
	}
	return out
}

// byImportance returns the names in order, those that matter most first.
func byImportance(in map[string]string) []string {
	first := map[string]int{"summary": -5, "description": -4, "runbook_url": -3, "remediation": -2, "affected": -1}
	names := make([]string, 0, len(in))
	for name := range in {
		names = append(names, name)
	}
	sort.Slice(names, func(i, j int) bool {
		if a, b := first[names[i]], first[names[j]]; a != b {
			return a < b
		}
		return names[i] < names[j]
	})
	return names
}

// annotationText takes from a text what could do harm on a screen or in chat:
// parts of it may come from a log line, which anybody may have written.
func annotationText(name, s string) string {
	switch {
	case strings.HasSuffix(name, "_url"):
		return sinks.Clean(s)
	case name == "line" || name == "first_line":
		return sinks.NeutralLine(s)
	}
	return sinks.Neutral(sinks.Clean(s))
}

// labelText does the same for a label. Characters are replaced and not removed:
// the result must not be the label of another alert, which would end with this
// one.
func labelText(s string) string {
	if redact.Sanitise(s) != s {
		s = strings.Map(func(r rune) rune {
			if c := string(r); redact.Sanitise(c) != c {
				return utf8.RuneError
			}
			return r
		}, s)
	}
	return redact.Inert(s)
}
