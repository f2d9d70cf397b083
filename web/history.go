package web

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/episodes/history"
	"crowsnest/rules"
)

// Limits of a query of the history.
const (
	maxPast     = 1000 // maximum number of episodes in one answer
	defaultPast = 100
	maxWords    = 256 // maximum length of the searched text in bytes
	maxNoisy    = 20  // maximum number of rules in the list of noisy rules
	pastDays    = 30  // number of days in the calendar
	seenDays    = 7
)

const day = 24 * time.Hour

// PastEpisode is an ended episode of the history, in the format of the API.
type PastEpisode struct {
	Fingerprint string            `json:"fingerprint"`
	External    string            `json:"externalFingerprint,omitempty"` // fingerprint of the alert in Alertmanager, see Episode
	Alert       string            `json:"alert"`
	Pack        string            `json:"pack,omitempty"`
	Reason      episodes.Reason   `json:"reason,omitempty"`
	Silent      bool              `json:"silent,omitempty"`
	Overflow    bool              `json:"overflow,omitempty"`
	Labels      map[string]string `json:"labels"`
	Summary     string            `json:"summary,omitempty"`
	StartsAt    time.Time         `json:"startsAt"`
	FiredAt     *time.Time        `json:"firedAt,omitempty"`
	LastSeen    *time.Time        `json:"lastSeen,omitempty"`
	EndsAt      time.Time         `json:"endsAt"`
	Seconds     float64           `json:"durationSeconds"`
	Count       int64             `json:"count"` // number of lines
	// Notified is the number of the episode's notifications that receivers accepted.
	Notified int `json:"notified"`
	// Flaps is the number of earlier episodes of the alert that began less than an hour after the end of the episode
	// before.
	Flaps int    `json:"flaps"`
	Cause *Cause `json:"cause,omitempty"`
	// Suppressed is the reason why Alertmanager notified nobody of the alert when the episode ended. It is absent if
	// Alertmanager notified somebody, or if this is not known.
	Suppressed *history.Suppression `json:"suppressed,omitempty"`
}

// History is the answer to a query of the history.
type History struct {
	Total    int           `json:"total"` // number of episodes that the query selects
	Episodes []PastEpisode `json:"episodes"`
	// Next is the value of the parameter `after` with which a query returns the following episodes. It is absent if
	// there are none.
	Next string `json:"next,omitempty"`
	// Days are the last 30 days in UTC, the oldest first. Rules are the noisy rules, ordered by the numbers of
	// notifications, flaps and episodes. Days and Rules count all episodes that the query selects, but Days ignores the
	// times in the query.
	Days  []HistoryDay  `json:"days"`
	Rules []HistoryRule `json:"rules"`
}

// HistoryDay counts the episodes that began on one day.
type HistoryDay struct {
	Date     string `json:"date" jsonschema:"format=date"`
	Episodes int    `json:"episodes"`
	Critical int    `json:"critical"`
	Warning  int    `json:"warning"`
}

// HistoryRule counts the episodes of one rule.
type HistoryRule struct {
	Alert    string    `json:"alert"`
	Episodes int       `json:"episodes"`
	Alerts   int       `json:"alerts"` // number of alerts with different labels
	Notified int       `json:"notified"`
	Flaps    int       `json:"flaps"` // number of episodes that began less than an hour after the end of the previous one
	Seconds  float64   `json:"durationSeconds"`
	Last     time.Time `json:"lastStartsAt"`
}

// Seen describes the earlier episodes of an alert.
type Seen struct {
	Times int `json:"times"` // number of episodes that ended in the last Days days
	Days  int `json:"days"`
	Total int `json:"total"` // number of episodes that are remembered
	// StartsAt, EndsAt and Seconds describe the newest earlier episode.
	StartsAt time.Time `json:"lastStartsAt"`
	EndsAt   time.Time `json:"lastEndsAt"`
	Seconds  float64   `json:"lastDurationSeconds"`
	// Text is a summary of the other fields for people.
	Text string `json:"text"`
}

// earlierEpisodes summarizes the earlier episodes of an episode's alert. It returns nil if there are none.
func (s *Server) earlierEpisodes(e *episodes.Episode) *Seen {
	now := s.opt.Now()
	out := Seen{Days: seenDays}
	for _, x := range s.view.PastEpisodes(e.Fingerprint) {
		if !x.StartsAt.Before(e.StartsAt) {
			continue // x is the episode itself or began later
		}
		if out.Total == 0 {
			out.StartsAt, out.EndsAt, out.Seconds = x.StartsAt, x.EndsAt, x.Duration().Seconds()
			out.Text = fmt.Sprintf(", last for %s, ended %s", formatDuration(x.Duration()), formatAgo(now, x.EndsAt))
		}
		out.Total++
		if x.EndsAt.After(now.Add(-seenDays * day)) {
			out.Times++
		}
	}
	switch {
	case out.Total == 0:
		return nil
	case out.Times == 0:
		out.Text = "seen " + timesText(out.Total) + " before" + out.Text
	default:
		out.Text = fmt.Sprintf("seen %s in %d days", timesText(out.Times), seenDays) + out.Text
	}
	return &out
}

func timesText(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// pastEpisode converts an entry of the history to an episode. more contains additional labels.
func pastEpisode(x *history.Entry, set *rules.Set, more map[string]string) episodes.Episode {
	e := episodes.Episode{
		Fingerprint: episodes.Fingerprint(x.Fingerprint), Rule: set.Rule(x.Alert), Alert: x.Alert, State: episodes.StateResolved,
		Reason: episodes.Reason(x.Reason), Silent: x.Silent, Overflow: x.Overflow, Labels: x.Labels, StartsAt: x.StartsAt, FiredAt: x.FiredAt,
		LastSeen: x.LastSeen, EndsAt: x.EndsAt, ConcludedAt: x.ConcludedAt, Count: x.Lines, Tenant: x.Tenant,
	}
	if x.Summary != "" {
		e.Annotations = map[string]string{"summary": tameText(x.Summary)}
	}
	if c := x.Cause; c != nil {
		e.Cause = &episodes.Cause{Fingerprint: episodes.Fingerprint(c.Fingerprint), Alert: c.Alert, Severity: c.Severity, Labels: c.Labels, StartsAt: c.StartsAt}
	}
	e.State = e.ShownState()
	return withExternal(e, more)
}

func toPast(x *history.Entry, set *rules.Set, more map[string]string) PastEpisode {
	e := pastEpisode(x, set, more)
	return PastEpisode{
		Fingerprint: e.Fingerprint.String(), External: externalFingerprint(e.Fingerprint, e.Labels), Alert: x.Alert, Pack: x.Pack,
		Reason: e.Reason, Silent: x.Silent, Overflow: x.Overflow, Labels: notNilMap(e.Labels), Summary: e.Annotations["summary"],
		StartsAt: x.StartsAt, FiredAt: optionalTime(x.FiredAt), LastSeen: optionalTime(x.LastSeen), EndsAt: x.EndsAt, Seconds: x.Duration().Seconds(),
		Count: x.Lines, Notified: x.Notified, Flaps: x.Flaps, Cause: toCause(e.Cause), Suppressed: x.Suppressed,
	}
}

func (s *Server) queryHistory(q pastQuery) History {
	out := History{Episodes: []PastEpisode{}}
	var chosen, inTime []*history.Entry
	more := externalLabels(s.view)
	for _, x := range s.view.History() {
		if q.selectsEntry(x, more) {
			chosen = append(chosen, x)
			if q.isWithin(x) {
				inTime = append(inTime, x)
			}
		}
	}
	out.Total, out.Days, out.Rules = len(inTime), countDays(chosen, s.opt.Now()), noisyRules(inTime)
	rest := inTime
	if q.lastShown != nil {
		at, same := slices.BinarySearchFunc(rest, q.lastShown, history.NewestFirst)
		if same {
			at++
		}
		rest = rest[at:]
	}
	page := rest[:min(len(rest), q.limit)]
	set := s.view.Rules().Set
	for _, x := range page {
		out.Episodes = append(out.Episodes, toPast(x, set, more))
	}
	if len(page) > 0 && len(page) < len(rest) {
		out.Next = historyCursor(page[len(page)-1])
	}
	return out
}

func countDays(all []*history.Entry, now time.Time) []HistoryDay {
	out := make([]HistoryDay, pastDays)
	at := make(map[string]*HistoryDay, pastDays)
	for i := range out {
		out[i].Date = now.UTC().Add(time.Duration(i-pastDays+1) * day).Format(time.DateOnly)
		at[out[i].Date] = &out[i]
	}
	for _, x := range all {
		d := at[x.StartsAt.UTC().Format(time.DateOnly)]
		if d == nil {
			continue
		}
		d.Episodes++
		switch x.Labels["severity"] {
		case "critical":
			d.Critical++
		case "warning":
			d.Warning++
		}
	}
	return out
}

// noisyRules returns the rules ordered by numbers of notifications, then of flaps, then of episodes, the highest first.
func noisyRules(all []*history.Entry) []HistoryRule {
	byRule := map[string]*HistoryRule{}
	alerts := map[uint64]bool{}
	for _, x := range all {
		r := byRule[x.Alert]
		if r == nil {
			r = &HistoryRule{Alert: x.Alert, Last: x.StartsAt}
			byRule[x.Alert] = r
		}
		r.Episodes, r.Notified, r.Seconds = r.Episodes+1, r.Notified+x.Notified, r.Seconds+x.Duration().Seconds()
		if x.Flaps > 0 {
			r.Flaps++
		}
		if !alerts[x.Fingerprint] {
			alerts[x.Fingerprint] = true
			r.Alerts++
		}
	}
	out := []HistoryRule{}
	for _, r := range byRule {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b HistoryRule) int {
		return cmp.Or(b.Notified-a.Notified, b.Flaps-a.Flaps, b.Episodes-a.Episodes, strings.Compare(a.Alert, b.Alert))
	})
	return out[:min(len(out), maxNoisy)]
}

func (s *Server) apiHistory(r *http.Request) (any, *apiError) {
	q, err := s.parsePast(r, "")
	if err != nil {
		return nil, badData(err.Error())
	}
	return s.queryHistory(q), nil
}

// SpanText formats a number of seconds as a duration for people.
func SpanText(seconds float64) string {
	return formatDuration(time.Duration(seconds * float64(time.Second)))
}
