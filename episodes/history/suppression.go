package history

import "time"

// Suppression is the reason why Alertmanager notifies nobody of an alert: a silence, or other alerts that inhibit it.
type Suppression struct {
	Silence  string    `json:"silence,omitempty"` // ID of the silence; absent if the alert is inhibited
	Author   string    `json:"author,omitempty"`
	Comment  string    `json:"comment,omitempty"`
	StartsAt time.Time `json:"startsAt,omitzero"` // start of the silence
	EndsAt   time.Time `json:"endsAt,omitzero"`   // end of the silence
	// InhibitedBy are the inhibiting alerts by name, or by their fingerprint in Alertmanager if
	// crowsnest does not know them.
	InhibitedBy []string `json:"inhibitedBy,omitempty"`
}

// Kind returns "silenced" or "inhibited".
func (x *Suppression) Kind() string {
	if x.Silence != "" {
		return "silenced"
	}
	return "inhibited"
}

// Weaker returns the reason for a pair of Alertmanagers that both notify of the alert. It is nil if one of the reasons
// is nil, and otherwise the reason that ends first. The end of an inhibition is not known, so a silence is preferred to
// an inhibition.
func (x *Suppression) Weaker(o *Suppression) *Suppression {
	if x == nil || o == nil {
		return nil
	}
	if !o.EndsAt.IsZero() && (x.EndsAt.IsZero() || o.EndsAt.Before(x.EndsAt)) {
		return o
	}
	return x
}
