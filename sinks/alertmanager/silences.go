package alertmanager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/alertmanager/api/v2/models"
	"github.com/prometheus/alertmanager/pkg/labels"

	"crowsnest/sinks/internal/delivery"
)

// maxSilences is the largest response with silences that is read, in bytes. An Alertmanager
// also returns silences that ended days ago.
const maxSilences = 8 << 20

// ActiveSilence is an active silence. It silences the alerts that match all of its matchers.
type ActiveSilence struct {
	ID              string
	Matchers        []*labels.Matcher
	End             time.Time
	Author, Comment string
}

// Silences returns the active silences. It asks the Alertmanagers of the sink in turn until one
// answers, because all members of a cluster have the same silences. The error does not quote
// secrets of the address.
func (s *Sink) Silences(ctx context.Context) ([]ActiveSilence, error) {
	var errs []error
	for _, e := range s.endpoints {
		out, err := e.client.listSilences(ctx)
		if err == nil {
			return out, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", e.name, err))
	}
	return nil, errors.Join(errs...)
}

func (c *client) listSilences(ctx context.Context) ([]ActiveSilence, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	h, err := c.http.Client()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/api/v2/silences", nil)
	if err != nil {
		return nil, errors.New("the address cannot be used")
	}
	resp, err := h.Do(req)
	if err != nil {
		return nil, delivery.ConnectionFailed(err).Err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxSilences+1))
	switch {
	case resp.StatusCode/100 != 2:
		return nil, fmt.Errorf("status %d: %s", resp.StatusCode, delivery.Excerpt(string(body)))
	case err != nil:
		return nil, errors.New("the response ended early")
	case len(body) > maxSilences:
		return nil, fmt.Errorf("the response has more than %d MiB", maxSilences>>20)
	}
	var all models.GettableSilences
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, errors.New("the response is invalid: check whether this is an Alertmanager")
	}
	var out []ActiveSilence
	for _, x := range all {
		if active, ok := inForce(x); ok {
			out = append(out, active)
		}
	}
	return out, nil
}

// inForce converts a silence. ok is false if the silence is not active or cannot be evaluated.
func inForce(x *models.GettableSilence) (out ActiveSilence, ok bool) {
	if x == nil || x.ID == nil || x.EndsAt == nil || x.CreatedBy == nil || x.Comment == nil ||
		x.Status == nil || x.Status.State == nil || *x.Status.State != models.SilenceStatusStateActive {
		return out, false
	}
	out = ActiveSilence{ID: *x.ID, End: time.Time(*x.EndsAt), Author: *x.CreatedBy, Comment: *x.Comment}
	for _, m := range x.Matchers {
		if m == nil || m.Name == nil || m.Value == nil || m.IsRegex == nil {
			return out, false
		}
		kind := map[[2]bool]labels.MatchType{
			{false, true}: labels.MatchEqual, {false, false}: labels.MatchNotEqual, {true, true}: labels.MatchRegexp, {true, false}: labels.MatchNotRegexp,
		}[[2]bool{*m.IsRegex, m.IsEqual == nil || *m.IsEqual}]
		matcher, err := labels.NewMatcher(kind, *m.Name, *m.Value)
		if err != nil {
			return out, false
		}
		out.Matchers = append(out.Matchers, matcher)
	}
	return out, len(out.Matchers) > 0
}
