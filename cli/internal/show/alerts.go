package show

import (
	"io"
	"time"

	"crowsnest/episodes"
	"crowsnest/lab/scan"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/sentinel"
)

// scannedAlert is an alert as JSON. A time is absent if the lines state none.
type scannedAlert struct {
	Alert       string            `json:"alert"`
	State       episodes.State    `json:"state"`
	Reason      episodes.Reason   `json:"reason,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"starts_at,omitzero"`
	FiredAt     time.Time         `json:"fired_at,omitzero"`
	LastSeen    time.Time         `json:"last_seen,omitzero"`
	EndsAt      *time.Time        `json:"ends_at,omitempty"`
	Count       int64             `json:"count"`
	Line        redact.Text       `json:"line"`
	First       redact.Text       `json:"first_line"`
	Fingerprint string            `json:"fingerprint"`
	Cause       *scannedCause     `json:"cause,omitempty"`
	Also        []string          `json:"also,omitempty"`
	Assumes     string            `json:"assumes,omitempty"`
}

// scannedCause is the alert that another one is a symptom of.
type scannedCause struct {
	Alert       string            `json:"alert"`
	Fingerprint string            `json:"fingerprint"`
	Severity    string            `json:"severity,omitempty"`
	Labels      map[string]string `json:"labels"`
	StartsAt    time.Time         `json:"starts_at,omitzero"`
}

func toScanned(a replay.Alert) scannedAlert {
	e := a.Episode
	out := scannedAlert{
		Alert: e.Alert, State: e.State, Reason: e.Reason, Labels: e.Labels, Annotations: e.Annotations,
		StartsAt: e.StartsAt, FiredAt: a.Fired, LastSeen: e.LastSeen, Count: e.Count, Line: e.Line, First: e.First,
		Fingerprint: e.Fingerprint.String(), Also: a.Also, Assumes: a.Assumes,
	}
	if c := e.Cause; c != nil {
		out.Cause = &scannedCause{Alert: c.Alert, Fingerprint: c.Fingerprint.String(), Severity: c.Severity, Labels: c.Labels, StartsAt: c.StartsAt}
	}
	if !e.EndsAt.IsZero() {
		out.EndsAt = &e.EndsAt
	}
	return out
}

// AlertLine writes an alert as one line of JSON. The key kind tells it from a finding and from a
// complaint, which Lines writes too.
func AlertLine(w io.Writer, a replay.Alert) error {
	return JSON(w, struct {
		scannedAlert
		Kind string `json:"kind"`
	}{toScanned(a), "alert"}, false)
}

// Lines writes what a scan found as one line of JSON each: alerts, findings, complaints.
func Lines(w io.Writer, r scan.Result) error {
	for _, a := range r.Alerts {
		if err := AlertLine(w, a); err != nil {
			return err
		}
	}
	for _, f := range r.Findings {
		if err := JSON(w, struct {
			foundFailure
			Kind string `json:"kind"`
		}{toFoundFailure(f), "finding"}, false); err != nil {
			return err
		}
	}
	for _, u := range r.Unknown {
		if err := JSON(w, struct {
			sentinel.Unknown
			Kind string `json:"kind"`
		}{u, "unknown"}, false); err != nil {
			return err
		}
	}
	return nil
}

// Found is what a scan found.
type Found struct {
	scan.Result
	All     bool // whether to list every finding
	Files   any  // account of the inputs, a list, for JSON
	NotSeen any  // what of a cluster was not read, a list, for JSON; nil if no cluster was read
}

// Alerts writes what a scan found in an output format: text, json or jsonl.
func Alerts(w io.Writer, form string, style Style, r Found) error {
	switch form {
	case "json":
		all := make([]scannedAlert, len(r.Alerts))
		for i, a := range r.Alerts {
			all[i] = toScanned(a)
		}
		list := []member{{"alerts", all}, {"findings", FindingsJSON(r.Findings)}, {"files", r.Files}, {"unknown", r.Unknown}}
		if r.NotSeen != nil {
			list = append(list, member{"not_seen", r.NotSeen})
		}
		return members(w, list)
	case "jsonl":
		return Lines(w, r.Result)
	}
	for i, a := range r.Alerts {
		if i > 0 {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
		if err := alertOf(w, a, style); err != nil {
			return err
		}
	}
	if err := Findings(w, r.Findings, r.All, len(r.Alerts) > 0, style); err != nil {
		return err
	}
	return Unknown(w, r.Unknown, len(r.Alerts)+len(r.Findings) > 0)
}
