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

// toAlert returns the alert for a message sent at now, when the receiver's clock is
// at peerNow. The times are such that no step of a clock gets an alert refused or
// misread: startsAt <= now < endsAt while firing, startsAt <= endsAt <= now when
// resolved, by both clocks. Both times are always set: an unset one would be sent
// as year 1.
func (c Config) toAlert(m sinks.Message, now, peerNow time.Time) (*models.PostableAlert, error) {
	ep := m.Episode
	labels, err := c.labels(ep)
	if err != nil {
		return nil, err
	}
	now = now.UTC()
	earliest := times.Earlier(now, peerNow.UTC())
	start := notAfter(ep.StartsAt, earliest)
	end := times.Later(now, peerNow.UTC()).Add(c.keptFor(ep))
	if m.Resolved {
		end = times.Later(notAfter(ep.EndsAt, earliest), start)
	}
	return &models.PostableAlert{
		StartsAt:    strfmt.DateTime(start),
		EndsAt:      strfmt.DateTime(end),
		Annotations: delivery.Annotations(ep.Annotations),
		Alert:       models.Alert{Labels: labels, GeneratorURL: strfmt.URI(delivery.Link(c.ExternalURL, ep.Fingerprint))},
	}, nil
}

// keptFor returns how long an Alertmanager keeps an alert as firing after it was
// last sent. A heartbeat that outlives its sender would feed a dead man's switch.
func (c Config) keptFor(ep episodes.Episode) time.Duration {
	if ep.Heartbeat {
		return heartbeatResends * c.ResendDelay
	}
	return c.EndsAfter
}

// notAfter returns t in UTC, or now if t is later or not set.
func notAfter(t, now time.Time) time.Time {
	if t.IsZero() || t.After(now) {
		return now
	}
	return t.UTC()
}

// labels returns a copy of the episode's labels with the external ones. They are
// the alert's identity, so labels that would have to be changed are refused.
func (c Config) labels(ep episodes.Episode) (models.LabelSet, error) {
	if strings.TrimSpace(ep.Labels["alertname"]) == "" {
		return nil, errors.New("the alert has no alertname")
	}
	out := models.LabelSet{}
	for name, value := range ep.Labels {
		value = labelText(value)
		switch {
		case value == "":
			continue // the same as absent
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

// labelText makes the value of a label harmless to show. It replaces characters
// instead of removing them: the result must not equal the label of another alert,
// which would end with this one.
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
