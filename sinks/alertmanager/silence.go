package alertmanager

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/prometheus/alertmanager/api/v2/models"

	"crowsnest/sinks/internal/delivery"
)

// Silence is a silence of all alerts that have its labels.
type Silence struct {
	Labels          map[string]string
	Start, End      time.Time
	Author, Comment string
}

// Silence creates a silence at the first Alertmanager of the sink that answers. This
// Alertmanager passes it on to the rest of its cluster. Silence returns the name of the
// Alertmanager, as in Status, and the identifier of the silence. The error does not quote
// secrets of the address.
func (s *Sink) Silence(ctx context.Context, silence Silence) (endpoint, id string, err error) {
	body, err := silence.encode()
	if err != nil {
		return "", "", err
	}
	var errs []error
	for _, e := range s.endpoints {
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

func (s Silence) encode() ([]byte, error) {
	start, end := strfmt.DateTime(s.Start), strfmt.DateTime(s.End)
	out := models.PostableSilence{Silence: models.Silence{Comment: &s.Comment, CreatedBy: &s.Author, StartsAt: &start, EndsAt: &end}}
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		value, regex, equal := s.Labels[name], false, true
		out.Matchers = append(out.Matchers, &models.Matcher{Name: &name, Value: &value, IsRegex: &regex, IsEqual: &equal})
	}
	return json.Marshal(out)
}

// postSilence posts a silence and returns its identifier. again reports whether another member
// of the cluster may accept a silence that this one did not accept.
func (c *client) postSilence(ctx context.Context, body []byte) (id string, again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	h, err := c.http.Client()
	if err != nil {
		return "", true, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/api/v2/silences", bytes.NewReader(body))
	if err != nil {
		return "", true, errors.New("the address cannot be used")
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := h.Do(req)
	if err != nil {
		return "", true, delivery.ConnectionFailed(err).Err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, maxStatus))
	switch {
	case resp.StatusCode/100 != 2:
		return "", resp.StatusCode/100 != 4 || resp.StatusCode == http.StatusTooManyRequests, fmt.Errorf("status %d: %s", resp.StatusCode, delivery.Excerpt(string(said)))
	case err != nil:
		return "", false, errors.New("the response ended early: check in Alertmanager whether the silence was created")
	}
	var made struct {
		ID string `json:"silenceID"`
	}
	if json.Unmarshal(said, &made) != nil || made.ID == "" {
		return "", false, errors.New("the response has no silence ID: check whether this is an Alertmanager")
	}
	return made.ID, false, nil
}
