package alertmanager

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-openapi/strfmt"
	"github.com/prometheus/alertmanager/api/v2/models"
	"github.com/prometheus/common/model"

	"crowsnest/episodes"
	"crowsnest/internal/times"
	"crowsnest/redact"
	"crowsnest/sinks"
	"crowsnest/sinks/internal/delivery"
)

// toAlert returns the alert for a message that is sent at now by our clock and at peerNow by the receiver's clock. The
// times of the alert are valid by both clocks, even if one of the clocks is wrong. By both clocks, startsAt <= now <
// endsAt if the alert is firing, and startsAt <= endsAt <= now if the alert is resolved. Both times are always set,
// because an unset time would be sent as year 1.
func (c Config) toAlert(m sinks.Message, now, peerNow time.Time) (*models.PostableAlert, error) {
	ep := m.Episode
	labels, err := c.alertLabels(ep)
	if err != nil {
		return nil, err
	}
	now = now.UTC()
	earliest := times.Min(now, peerNow.UTC())
	start := notAfter(ep.StartsAt, earliest)
	end := times.Max(now, peerNow.UTC()).Add(c.keptFor(ep))
	if m.Resolved {
		end = times.Max(notAfter(ep.EndsAt, earliest), start)
	}
	return &models.PostableAlert{
		StartsAt:    strfmt.DateTime(start),
		EndsAt:      strfmt.DateTime(end),
		Annotations: delivery.Annotations(ep.Annotations),
		Alert:       models.Alert{Labels: labels, GeneratorURL: strfmt.URI(delivery.Link(c.ExternalURL, ep.Fingerprint))},
	}, nil
}

// keptFor returns how long an Alertmanager keeps an alert firing after it was last sent. This time is short for a
// heartbeat. A heartbeat that outlives its sender would keep a dead man's switch from triggering.
func (c Config) keptFor(ep episodes.Episode) time.Duration {
	if ep.Heartbeat {
		return heartbeatResends * c.ResendDelay
	}
	return c.EndsAfter
}

// notAfter returns t in UTC, or now if t is later than now or not set.
func notAfter(t, now time.Time) time.Time {
	if t.IsZero() || t.After(now) {
		return now
	}
	return t.UTC()
}

// alertLabels returns a copy of the episode's labels together with the external labels. Labels
// are the alert's identity, so labels that cannot be sent unchanged are refused.
func (c Config) alertLabels(ep episodes.Episode) (models.LabelSet, error) {
	if strings.TrimSpace(ep.Labels["alertname"]) == "" {
		return nil, errors.New("the alert has no alertname")
	}
	out := models.LabelSet{}
	for name, value := range ep.Labels {
		value = labelText(value)
		switch {
		case value == "":
			continue // an empty label is the same as no label
		case !model.LegacyValidation.IsValidLabelName(name) || len(name) > maxValue:
			return nil, fmt.Errorf("%q is not a label name", delivery.Truncate(name, 64))
		case len(value) > maxValue:
			return nil, fmt.Errorf("label %s has %d bytes, more than %d", name, len(value), maxValue)
		}
		out[name] = value
	}
	if len(out) > maxLabels {
		return nil, fmt.Errorf("the alert has %d labels, more than %d", len(out), maxLabels)
	}
	for name, value := range c.ExternalLabels {
		if _, has := out[name]; !has {
			out[name] = value
		}
	}
	return out, nil
}

// labelText makes the value of a label harmless to display. It replaces characters instead of removing them. With
// characters removed, two alerts could get equal labels, and the end of one alert would end the other.
func labelText(s string) string {
	if redact.Sanitise(s) != s {
		s = strings.Map(func(r rune) rune {
			if c := string(r); redact.Sanitise(c) != c {
				return utf8.RuneError
			}
			return r
		}, s)
	}
	return redact.DefuseLinks(s)
}
