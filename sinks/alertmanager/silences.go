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
	"github.com/prometheus/alertmanager/pkg/labels"

	"crowsnest/sinks/internal/delivery"
)

// Silence describes a silence to create. It silences all alerts that have its labels.
type Silence struct {
	Labels          map[string]string
	Start, End      time.Time
	Author, Comment string
}

// Silence creates a silence at the first Alertmanager of the sink that answers. This
// Alertmanager passes the silence on to the other members of its cluster. Silence returns the
// name of the Alertmanager, as in Status, and the identifier of the silence. The error does
// not quote secrets of the address.
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

// maxSilences is the largest size of a list of silences that is read, in bytes. An
// Alertmanager also returns silences that ended days ago.
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
	resp, a := c.request(ctx, http.MethodGet, "/api/v2/silences", nil, maxSilences+1)
	switch {
	case a.Err != nil:
		return nil, a.Err
	case resp.code/100 != 2:
		return nil, resp.unexpected()
	case resp.bodyErr != nil:
		return nil, errors.New("the response ended early")
	case len(resp.body) > maxSilences:
		return nil, fmt.Errorf("the response has more than %d MiB", maxSilences>>20)
	}
	var all models.GettableSilences
	if err := json.Unmarshal(resp.body, &all); err != nil {
		return nil, errors.New("the response is invalid: check whether this is an Alertmanager")
	}
	var out []ActiveSilence
	for _, x := range all {
		if active, ok := readActive(x); ok {
			out = append(out, active)
		}
	}
	return out, nil
}

// readActive converts a silence. ok is false if the silence is not active or cannot be evaluated.
func readActive(x *models.GettableSilence) (out ActiveSilence, ok bool) {
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
