package sentinel

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/redact"
)

// maxOfAlert is the largest number of patterns in one alert.
const maxOfAlert = 4

type alert struct {
	StartsAt int64       `json:"starts_at"`
	FiredAt  int64       `json:"fired_at"`
	Last     int64       `json:"last"` // time of the newest line, in Unix seconds
	Cause    cause       `json:"cause"`
	Object   redact.Text `json:"object,omitempty"`
	Patterns []uint64    `json:"patterns"` // keys of the patterns; the first one made the alert fire
}

func (s *Sentinel) fire(f *finding, now int64) episodes.Episode {
	c := f.component
	c.alert = &alert{StartsAt: f.since(), FiredAt: now, Last: f.pattern.Last, Cause: f.cause, Patterns: []uint64{f.pattern.Key}}
	if f.run != nil {
		c.alert.Object = f.run.Object
	}
	c.last, f.pattern.Alerted = now, now
	s.fired = append(s.fired, now)
	s.st.Fired++
	s.open++
	return s.episode(c)
}

// updateAlert updates the open alert of a component. Further failures join the alert. The alert
// ends when all of its failures are quiet.
func (s *Sentinel) updateAlert(c *component, found []finding, now, proved int64) []episodes.Episode {
	a := c.alert
	for _, key := range a.Patterns {
		if p := c.find(key); p != nil {
			a.Last = max(a.Last, p.Last)
		}
	}
	joined := false
	for i := range found {
		p := found[i].pattern
		if a.Last = max(a.Last, p.Last); slices.Contains(a.Patterns, p.Key) || len(a.Patterns) == maxOfAlert {
			continue
		}
		if first := c.find(a.Patterns[0]); p.Ends && first != nil && !first.Ends {
			a.setFirst(&found[i])
		} else {
			a.Patterns = append(a.Patterns, p.Key)
		}
		p.Alerted, joined = now, true
	}
	if proved-a.Last >= endAfter && proved >= a.FiredAt {
		return []episodes.Episode{s.endAlert(c, episodes.ReasonQuiet, a.Last+endAfter, now)}
	}
	if joined {
		return []episodes.Episode{s.episode(c)}
	}
	return nil
}

// setFirst makes f the first failure of the alert.
func (a *alert) setFirst(f *finding) {
	a.Patterns = slices.Insert(a.Patterns, 0, f.pattern.Key)
	a.Cause, a.Object = f.cause, ""
	if f.run != nil {
		a.Object = f.run.Object
	}
}

// endAlert ends the alert of a component. It returns the alert's last state.
func (s *Sentinel) endAlert(c *component, why episodes.Reason, t, now int64) episodes.Episode {
	x := s.episode(c)
	x.State, x.Reason = episodes.StateResolved, why
	x.EndsAt, x.ConcludedAt = unix(max(t, c.alert.StartsAt)), unix(now)
	c.alert = nil
	s.open--
	return x
}

// find returns the pattern with a key, or nil if the component no longer has it.
func (c *component) find(key uint64) *pattern {
	if c.patterns == nil {
		return nil
	}
	if item := c.patterns.Items[(&pattern{Key: key}).key()]; item != nil {
		return item.Value
	}
	return nil
}

func unix(t int64) time.Time { return time.Unix(t, 0).UTC() }

func labelsOf(c *component) map[string]string {
	out := map[string]string{"alertname": AlertName, "severity": "info"}
	for name, value := range c.labels {
		out[name] = redact.Sanitise(value)
	}
	return out
}

func (s *Sentinel) episode(c *component) episodes.Episode {
	a, labels := c.alert, labelsOf(c)
	x := episodes.Episode{
		Fingerprint: episodes.FingerprintOf(labels), Alert: AlertName, State: episodes.StateFiring, Labels: labels,
		StartsAt: unix(a.StartsAt), FiredAt: unix(a.FiredAt), LastSeen: unix(a.FiredAt), Tenant: c.party,
	}
	u := s.unknown(c, a.Patterns, a.Cause, a.Object)
	u.Since = x.StartsAt
	x.Count, x.Line = max(1, u.Count), u.line
	if !u.Last.IsZero() {
		x.LastSeen = u.Last
	}
	x.Annotations = u.annotations()
	return x
}

// OpenAlerts returns the open alerts.
func (s *Sentinel) OpenAlerts() []episodes.Episode {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []episodes.Episode
	for c := range s.allComponents() {
		if c.alert != nil {
			out = append(out, s.episode(c))
		}
	}
	slices.SortFunc(out, func(a, b episodes.Episode) int { return a.StartsAt.Compare(b.StartsAt) })
	return out
}

func (u *UnknownFailure) annotations() map[string]string {
	where := u.Name()
	var d strings.Builder
	fmt.Fprintf(&d, "Pattern: %s\n", u.Pattern)
	for i, also := range u.OtherTexts {
		if i == 0 {
			d.WriteString("Also:\n")
		}
		fmt.Fprintf(&d, "  %s\n", also)
	}
	fmt.Fprintf(&d, "Since %s", u.Since.Format(time.RFC3339))
	if u.Object != "" {
		fmt.Fprintf(&d, ", about %s", u.Object)
	}
	if len(u.Pods) > 0 {
		fmt.Fprintf(&d, ", in %s", strings.Join(u.Pods, ", "))
	}
	d.WriteString(".\n")
	for _, change := range u.Changes {
		fmt.Fprintf(&d, "%s.\n", change)
	}
	for i, e := range u.Examples {
		if i == 0 {
			d.WriteString("Examples:\n")
		}
		fmt.Fprintf(&d, "  %s\n", e)
	}
	what := "reports a failure again and again, and no rule describes it"
	if u.Reason == whyNew {
		what = "reports a failure that it did not report before, and no rule describes it"
	}
	return map[string]string{
		"summary":     where + " " + what,
		"description": strings.TrimSuffix(d.String(), "\n"),
		"line":        string(u.line),
		"remediation": "Read the examples. If this is a failure, `crowsnest get unknown -o rule " + u.Fingerprint.String() + "` prints a rule with tests to start from. " +
			"If it is ordinary, add this line below sentinel.ignore in the configuration: " + u.Ignore,
	}
}
