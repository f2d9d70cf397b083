package alertmanager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/alertmanager/api/v2/models"
	"github.com/prometheus/alertmanager/pkg/labels"

	"crowsnest/episodes"
	"crowsnest/episodes/history"
	"crowsnest/internal/text"
	"crowsnest/redact"
	"crowsnest/rules"
)

// Limits of the answers about silences and inhibited alerts.
const (
	// maxListed is the largest size of a list that is read, in bytes. An Alertmanager also returns silences that ended
	// days ago.
	maxListed     = 8 << 20
	maxAuthor     = 100 // largest size of an author in bytes
	maxComment    = 300 // largest size of a comment in bytes
	maxInhibitors = 5
)

// activeSilence is an active silence. It silences the alerts that match all of its matchers.
type activeSilence struct {
	matchers []*labels.Matcher
	reason   history.Suppression
}

// suppressions holds the silences and inhibitions of one Alertmanager.
type suppressions struct {
	silences []activeSilence
	// inhibitors has the fingerprints of the inhibiting alerts, by fingerprint of the alert.
	inhibitors map[string][]string
}

// Suppressed returns, for each open alert of eps that the cluster suppresses, the reason why nobody is notified. One
// member is enough to notify, so an alert counts as suppressed only if all members that answer suppress it. The error
// says why no member answered, without secrets of the addresses.
func (s *Sink) Suppressed(ctx context.Context, eps []episodes.Episode) (map[episodes.Fingerprint]*history.Suppression, error) {
	list, none := s.reachable()
	if len(none) > 0 {
		return nil, errors.Join(none...)
	}
	members, errs := make([]*suppressions, len(list)), make([]error, len(list))
	var wg sync.WaitGroup
	for i, e := range list {
		wg.Go(func() {
			if members[i], errs[i] = e.client.listSuppressions(ctx); errs[i] != nil {
				errs[i] = fmt.Errorf("%s: %w", e.name, errs[i])
			}
		})
	}
	wg.Wait()
	members = slices.DeleteFunc(members, func(m *suppressions) bool { return m == nil })
	if len(members) == 0 {
		return nil, errors.Join(errs...)
	}
	names := s.alertNames(eps)
	out := map[episodes.Fingerprint]*history.Suppression{}
	for i := range eps {
		sent, err := s.cfg.alertLabels(eps[i])
		if err != nil {
			continue // the alert is not sent
		}
		weakest := members[0].reasonFor(sent, names)
		for _, m := range members[1:] {
			weakest = weakest.Weaker(m.reasonFor(sent, names))
		}
		if weakest != nil {
			out[eps[i].Fingerprint] = weakest //nolint:gosec // i is an index of eps
		}
	}
	return out, nil
}

// alertNames returns the names of the alerts that the sink sends for eps, by fingerprint in Alertmanager. The name of a
// mark is that of the cause, because crowsnest does not show marks.
func (s *Sink) alertNames(eps []episodes.Episode) map[string]string {
	out := map[string]string{}
	for _, m := range withMarks(eps, s.cfg.Inhibit) {
		sent, err := s.cfg.alertLabels(m)
		if err != nil {
			continue
		}
		name := m.Alert
		if name == rules.CauseKnown {
			name = m.Annotations["cause_alertname"]
		}
		out[episodes.FingerprintOf(sent).String()] = name
	}
	return out
}

// reasonFor returns the silence of the alert that ends last, or else the alerts that inhibit it. It returns nil if the
// Alertmanager does not suppress the alert.
func (m *suppressions) reasonFor(sent models.LabelSet, names map[string]string) (out *history.Suppression) {
	for i := range m.silences {
		x := &m.silences[i]
		if x.silences(sent) && (out == nil || x.reason.EndsAt.After(out.EndsAt)) {
			out = &x.reason
		}
	}
	inhibitors := m.inhibitors[episodes.FingerprintOf(sent).String()]
	if out != nil || len(inhibitors) == 0 {
		return out
	}
	out = &history.Suppression{}
	for _, fingerprint := range inhibitors[:min(len(inhibitors), maxInhibitors)] {
		name := names[fingerprint]
		if name == "" {
			name = shortText(fingerprint, maxAuthor)
		}
		out.InhibitedBy = append(out.InhibitedBy, name)
	}
	return out
}

func (x *activeSilence) silences(sent models.LabelSet) bool {
	for _, m := range x.matchers {
		if !m.Matches(sent[m.Name]) {
			return false
		}
	}
	return true
}

// listSuppressions returns the Alertmanager's current silences and inhibitions.
func (c *client) listSuppressions(ctx context.Context) (*suppressions, error) {
	var silences models.GettableSilences
	if err := c.list(ctx, "/api/v2/silences", &silences); err != nil {
		return nil, err
	}
	var alerts models.GettableAlerts
	if err := c.list(ctx, "/api/v2/alerts?active=false&silenced=false&inhibited=true&unprocessed=false", &alerts); err != nil {
		return nil, err
	}
	out := &suppressions{inhibitors: map[string][]string{}}
	for _, x := range silences {
		if active, ok := readActive(x); ok {
			out.silences = append(out.silences, active)
		}
	}
	for _, a := range alerts {
		if a != nil && a.Fingerprint != nil && a.Status != nil {
			out.inhibitors[*a.Fingerprint] = a.Status.InhibitedBy
		}
	}
	return out, nil
}

// list decodes a list of the API.
func (c *client) list(ctx context.Context, path string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	resp, a := c.request(ctx, http.MethodGet, path, nil, maxListed+1)
	switch {
	case a.Err != nil:
		return a.Err
	case resp.code/100 != 2:
		return resp.unexpected()
	case resp.bodyErr != nil:
		return errors.New("the response ended early")
	case len(resp.body) > maxListed:
		return fmt.Errorf("the response has more than %d MiB", maxListed>>20)
	}
	if err := json.Unmarshal(resp.body, out); err != nil {
		return errors.New("the response is invalid: check whether this is an Alertmanager")
	}
	return nil
}

// readActive converts a silence. ok is false if the silence is not active or cannot be evaluated.
func readActive(x *models.GettableSilence) (out activeSilence, ok bool) {
	if x == nil || x.ID == nil || x.StartsAt == nil || x.EndsAt == nil || x.CreatedBy == nil || x.Comment == nil ||
		x.Status == nil || x.Status.State == nil || *x.Status.State != models.SilenceStatusStateActive {
		return out, false
	}
	out.reason = history.Suppression{
		Silence: shortText(*x.ID, maxAuthor), StartsAt: time.Time(*x.StartsAt).UTC(), EndsAt: time.Time(*x.EndsAt).UTC(),
		Author: shortText(*x.CreatedBy, maxAuthor), Comment: shortText(*x.Comment, maxComment),
	}
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
		out.matchers = append(out.matchers, matcher)
	}
	return out, len(out.matchers) > 0
}

func shortText(s string, n int) string {
	return text.Shorten(strings.TrimSpace(redact.Sanitise(strings.Join(strings.Fields(s), " "))), n)
}
