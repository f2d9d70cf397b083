package web

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/history"
	"crowsnest/rules"
)

// Bounds of a query of the history.
const (
	maxPast     = 1000 // episodes in one answer
	defaultPast = 100
	maxWords    = 256 // bytes of text
	maxNoisy    = 20  // rules in the list of the noisy ones
	pastDays    = 30  // days of the calendar
	seenDays    = 7
)

const day = 24 * time.Hour

// PastEpisode is an ended episode of the history, in the format of the API.
type PastEpisode struct {
	Fingerprint string            `json:"fingerprint"`
	External    string            `json:"externalFingerprint,omitempty"` // as in Episode
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
	Count       int64             `json:"count"` // lines
	// Notified is how many notifications of it receivers accepted.
	Notified int `json:"notified"`
	// Flaps is how many episodes of the alert came before, each less than an hour after the
	// end of the one before it.
	Flaps int    `json:"flaps"`
	Cause *Cause `json:"cause,omitempty"`
}

// History is the answer to a query of the history.
type History struct {
	Total    int           `json:"total"` // episodes that the query selects
	Episodes []PastEpisode `json:"episodes"`
	// Next is the value of the parameter after for the episodes that follow; absent: these
	// are the last ones.
	Next string `json:"next,omitempty"`
	// Days are the last 30 days in UTC, the oldest first, and Rules the noisy rules: those
	// with the most notifications, then flaps, then episodes. Both count all episodes that
	// the query selects, but Days ignores its times.
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
	Alerts   int       `json:"alerts"` // with different labels
	Notified int       `json:"notified"`
	Flaps    int       `json:"flaps"` // episodes that began less than an hour after the end of the one before
	Seconds  float64   `json:"durationSeconds"`
	Last     time.Time `json:"lastStartsAt"`
}

// Seen describes the earlier episodes of an alert.
type Seen struct {
	Times int `json:"times"` // episodes that ended in the last Days days
	Days  int `json:"days"`
	Total int `json:"total"` // episodes that are remembered
	// The newest of them.
	StartsAt time.Time `json:"lastStartsAt"`
	EndsAt   time.Time `json:"lastEndsAt"`
	Seconds  float64   `json:"lastDurationSeconds"`
	// Text says the same for people.
	Text string `json:"text"`
}

// seen returns the earlier episodes of the alert of an episode; nil if none is remembered.
func (s *Server) seen(e *episodes.Episode) *Seen {
	now := s.opt.Now()
	out := Seen{Days: seenDays}
	for _, x := range s.view.Past(e.Fingerprint) {
		if !x.StartsAt.Before(e.StartsAt) {
			continue // the episode itself, or a later one
		}
		if out.Total == 0 {
			out.StartsAt, out.EndsAt, out.Seconds = x.StartsAt, x.EndsAt, x.Duration().Seconds()
			out.Text = fmt.Sprintf(", last for %s, ended %s", span(x.Duration()), ago(now, x.EndsAt))
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
		out.Text = "seen " + times(out.Total) + " before" + out.Text
	default:
		out.Text = fmt.Sprintf("seen %s in %d days", times(out.Times), seenDays) + out.Text
	}
	return &out
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// remembered returns an entry of the history as an episode that also has the labels of more.
func remembered(x *history.Entry, set *rules.Set, more map[string]string) episodes.Episode {
	e := episodes.Episode{
		Fingerprint: episodes.Fingerprint(x.Fingerprint), Rule: set.Rule(x.Alert), Alert: x.Alert, State: episodes.StateResolved,
		Reason: episodes.Reason(x.Reason), Silent: x.Silent, Overflow: x.Overflow, Labels: x.Labels, StartsAt: x.StartsAt, FiredAt: x.FiredAt,
		LastSeen: x.LastSeen, EndsAt: x.EndsAt, Concluded: x.Concluded, Count: x.Lines, Party: x.Party,
	}
	if x.Summary != "" {
		e.Annotations = map[string]string{"summary": tame(x.Summary)}
	}
	if c := x.Cause; c != nil {
		e.Cause = &episodes.Cause{Fingerprint: episodes.Fingerprint(c.Fingerprint), Alert: c.Alert, Severity: c.Severity, Labels: c.Labels, StartsAt: c.StartsAt}
	}
	e.State = e.Shown()
	return withExternal(e, more)
}

func toPast(x *history.Entry, set *rules.Set, more map[string]string) PastEpisode {
	e := remembered(x, set, more)
	return PastEpisode{
		Fingerprint: e.Fingerprint.String(), External: externalFingerprint(e.Fingerprint, e.Labels), Alert: x.Alert, Pack: x.Pack,
		Reason: e.Reason, Silent: x.Silent, Overflow: x.Overflow, Labels: notNilMap(e.Labels), Summary: e.Annotations["summary"],
		StartsAt: x.StartsAt, FiredAt: optional(x.FiredAt), LastSeen: optional(x.LastSeen), EndsAt: x.EndsAt, Seconds: x.Duration().Seconds(),
		Count: x.Lines, Notified: x.Notified, Flaps: x.Flaps, Cause: toCause(e.Cause),
	}
}

// past answers a query.
func (s *Server) past(q pastQuery) History {
	out := History{Episodes: []PastEpisode{}}
	var chosen, inTime []*history.Entry
	more := external(s.view)
	for _, x := range s.view.History() {
		if q.selects(x, more) {
			chosen = append(chosen, x)
			if q.within(x) {
				inTime = append(inTime, x)
			}
		}
	}
	out.Total, out.Days, out.Rules = len(inTime), calendar(chosen, s.opt.Now()), noisy(inTime)
	rest := inTime
	if q.after != nil {
		at, same := slices.BinarySearchFunc(rest, q.after, history.NewestFirst)
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
		out.Next = cursor(page[len(page)-1])
	}
	return out
}

// calendar counts the episodes of the last days.
func calendar(all []*history.Entry, now time.Time) []HistoryDay {
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

// noisy returns the rules with the most notifications, then flaps, then episodes.
func noisy(all []*history.Entry) []HistoryRule {
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
		return nil, &apiError{http.StatusBadRequest, "bad_data", err.Error()}
	}
	return s.past(q), nil
}

// SpanText formats a duration for people.
func SpanText(seconds float64) string { return span(time.Duration(seconds * float64(time.Second))) }
