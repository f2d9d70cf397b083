package alertmanager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/prometheus/alertmanager/api/v2/models"

	"crowsnest/sinks/internal/delivery"
)

// Silence describes a silence to create. It silences all alerts that have its labels.
type Silence struct {
	Labels          map[string]string
	Start, End      time.Time
	Author, Comment string
}

// Silence creates a silence at the first Alertmanager of the sink that answers. This Alertmanager passes the silence on
// to the other members of its cluster. Silence returns the name of the Alertmanager, as in Status, and the identifier
// of the silence. The error does not quote secrets of the address.
func (s *Sink) Silence(ctx context.Context, silence Silence) (endpoint, id string, err error) {
	body, err := silence.encode()
	if err != nil {
		return "", "", err
	}
	list, errs := s.reachable()
	for _, e := range list {
		id, again, err := e.client.postSilence(ctx, body)
		if err == nil {
			return e.name, id, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", e.name, err))
		if !again {
			break
		}
	}
	return "", "", errors.Join(errs...)
}

// reachable returns the Alertmanagers, or an error if none is known yet.
func (s *Sink) reachable() (members, []error) {
	list := s.all()
	if len(list) == 0 {
		return nil, []error{errors.New("no Alertmanager was found yet")}
	}
	return list, nil
}

func (s Silence) encode() ([]byte, error) {
	start, end := strfmt.DateTime(s.Start), strfmt.DateTime(s.End)
	out := models.PostableSilence{Silence: models.Silence{Comment: &s.Comment, CreatedBy: &s.Author, StartsAt: &start, EndsAt: &end}}
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		value, regex, equal := s.Labels[name], false, true
		out.Matchers = append(out.Matchers, &models.Matcher{Name: &name, Value: &value, IsRegex: &regex, IsEqual: &equal})
	}
	return json.Marshal(out)
}

// postSilence posts a silence and returns its identifier. again reports whether it makes sense
// to post the silence to another member of the cluster.
func (c *client) postSilence(ctx context.Context, body []byte) (id string, again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	resp, a := c.request(ctx, http.MethodPost, "/api/v2/silences", body, maxStatus)
	switch {
	case a.Err != nil:
		return "", true, a.Err
	case resp.code/100 != 2:
		return "", resp.code/100 != 4 || resp.code == http.StatusTooManyRequests, resp.unexpected()
	case resp.bodyErr != nil:
		return "", false, errors.New("the response ended early: check in Alertmanager whether the silence was created")
	}
	var made struct {
		ID string `json:"silenceID"`
	}
	if json.Unmarshal(resp.body, &made) != nil || made.ID == "" {
		return "", false, errors.New("the response has no silence ID: check whether this is an Alertmanager")
	}
	return made.ID, false, nil
}

func (r response) unexpected() error {
	return fmt.Errorf("status %d: %s", r.code, delivery.Excerpt(string(r.body)))
}
