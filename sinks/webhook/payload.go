package webhook

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"time"

	"crowsnest/sinks"
	"crowsnest/sinks/internal/delivery"
)

// payloadVersion is the version of the requests. It does not change when fields are added,
// because a receiver must ignore unknown fields.
const payloadVersion = "crowsnest/v1"

// Statuses of an alert, as Alertmanager names them.
const (
	statusFiring   = "firing"
	statusResolved = "resolved"
)

// Payload is the body of one request. Fields that Alertmanager's webhooks also have use the
// same name and format. Alerts are not grouped, so GroupLabels is empty.
type Payload struct {
	Version           string            `json:"version"`
	Receiver          string            `json:"receiver"` // name of the sink in the configuration
	Status            string            `json:"status"`   // firing if at least one of the alerts is firing
	Alerts            []Alert           `json:"alerts"`   // alerts of the request, at least one
	GroupLabels       map[string]string `json:"groupLabels"`
	CommonLabels      map[string]string `json:"commonLabels"`
	CommonAnnotations map[string]string `json:"commonAnnotations"`
	ExternalURL       string            `json:"externalURL"`
}

// Alert is one alert of a request. Fingerprint, StartsAt and Event together identify a request,
// and stay the same when it is repeated.
type Alert struct {
	Status       string            `json:"status"`
	Event        string            `json:"event"`
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"` // end of the episode; year 1 while the alert is firing
	GeneratorURL string            `json:"generatorURL"`
	Fingerprint  string            `json:"fingerprint"` // 16 hexadecimal digits
	Pack         string            `json:"pack,omitempty"`
	Count        int64             `json:"count"` // number of lines of the episode
	LastSeen     time.Time         `json:"lastSeen"`
	Reason       string            `json:"reason,omitempty"` // reason why the episode ended
	Line         string            `json:"line,omitempty"`   // newest line, redacted
	FirstLine    string            `json:"firstLine,omitempty"`
}

func (c Config) newAlert(m sinks.Message) (Alert, error) {
	ep := m.Episode
	if strings.TrimSpace(ep.Labels["alertname"]) == "" {
		return Alert{}, errors.New("the alert has no alertname")
	}
	a := Alert{
		Status: statusFiring, Event: delivery.Event(m),
		Labels: delivery.Labels(ep.Labels, c.ExternalLabels), Annotations: delivery.Annotations(ep.Annotations),
		StartsAt: ep.StartsAt.UTC(), Fingerprint: ep.Fingerprint.String(), Pack: delivery.Pack(ep), Count: ep.Count,
		LastSeen: cmp.Or(ep.LastSeen, ep.StartsAt).UTC(), Line: delivery.Line(ep.Line), FirstLine: delivery.Line(ep.FirstLine),
		GeneratorURL: delivery.Link(c.ExternalURL, ep.Fingerprint),
	}
	if m.Resolved {
		a.Status, a.Reason, a.EndsAt = statusResolved, string(ep.Reason), ep.EndsAt.UTC()
	}
	return a, nil
}

func (c Config) encodePayload(alerts []Alert) ([]byte, error) {
	p := Payload{
		Version: payloadVersion, Receiver: c.Name, Status: statusResolved, Alerts: alerts, GroupLabels: map[string]string{},
		CommonLabels: maps.Clone(alerts[0].Labels), CommonAnnotations: maps.Clone(alerts[0].Annotations), ExternalURL: c.ExternalURL,
	}
	for _, a := range alerts {
		if a.Status == statusFiring {
			p.Status = statusFiring
		}
		keepCommon(p.CommonLabels, a.Labels)
		keepCommon(p.CommonAnnotations, a.Annotations)
	}
	return json.Marshal(p)
}

// keepCommon removes from common every entry that is not also in other with the same value.
func keepCommon(common, other map[string]string) {
	maps.DeleteFunc(common, func(name, value string) bool {
		v, has := other[name]
		return !has || v != value
	})
}
