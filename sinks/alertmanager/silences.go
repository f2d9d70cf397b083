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

// maxSilences bounds the answer with the silences of an Alertmanager, which remembers ended ones
// for days, in bytes.
const maxSilences = 8 << 20

// ActiveSilence is a silence in force. It silences the alerts that all of its matchers match.
type ActiveSilence struct {
	ID              string
	Matchers        []*labels.Matcher
	End             time.Time
	Author, Comment string
}

// Silences returns the silences in force that the first Alertmanager of the sink that answers
// has: the others of its cluster have the same. The error does not quote secrets of the address.
func (s *Sink) Silences(ctx context.Context) ([]ActiveSilence, error) {
	var errs []error
	for _, e := range s.endpoints {
		out, err := e.client.silences(ctx)
		if err == nil {
			return out, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", e.name, err))
	}
	return nil, errors.Join(errs...)
}

func (c *client) silences(ctx context.Context) ([]ActiveSilence, error) {
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
		return nil, errors.New("the answer broke off")
	case len(body) > maxSilences:
		return nil, fmt.Errorf("the answer has more than %d MiB", maxSilences>>20)
	}
	var all models.GettableSilences
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, errors.New("the answer is not understood: is this an Alertmanager?")
	}
	var out []ActiveSilence
	for _, x := range all {
		if active, ok := inForce(x); ok {
			out = append(out, active)
		}
	}
	return out, nil
}

// inForce returns a silence that is active and that can be evaluated.
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
