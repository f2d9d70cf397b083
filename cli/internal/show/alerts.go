package show

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/lab/scan"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/unknown/sentinel"
)

// scannedAlert is the JSON form of an alert. A time is absent if the lines state none.
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

// scannedCause is the JSON form of the alert of which another alert is a symptom.
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

// AlertLine writes an alert as one line of JSON. The key kind distinguishes it from the other
// objects that WriteLines writes, which are findings and unknown failures.
func AlertLine(w io.Writer, a replay.Alert) error {
	return JSON(w, struct {
		scannedAlert
		Kind string `json:"kind"`
	}{toScanned(a), "alert"}, false)
}

// WriteLines writes each alert, finding and unknown failure of a scan as one line of JSON.
func WriteLines(w io.Writer, r scan.Result) error {
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

// Found is the result of a scan.
type Found struct {
	scan.Result
	All     bool // whether to list every finding
	Files   any  // list of how each input was read, for JSON
	NotSeen any  // list of the parts of a cluster that were not read, for JSON; nil if no cluster was read
}

// WriteAlerts writes the result of a scan. form is text, json or jsonl.
func WriteAlerts(w io.Writer, form string, style Style, r Found) error {
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
		return writeMembers(w, list)
	case "jsonl":
		return WriteLines(w, r.Result)
	}
	for i, a := range r.Alerts {
		if i > 0 {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
		if err := writeReplayAlert(w, a, style); err != nil {
			return err
		}
	}
	if err := WriteFindings(w, r.Findings, r.All, len(r.Alerts) > 0, style); err != nil {
		return err
	}
	return WriteUnknown(w, r.Unknown, len(r.Alerts)+len(r.Findings) > 0)
}

// member is a member of a JSON object whose value is a list.
type member struct {
	name string
	list any // a slice
}

// writeMembers writes an object as JSON. It encodes the elements of lists one by one, because
// the encoded list of 200,000 files would double the memory.
func writeMembers(w io.Writer, all []member) error {
	var buf bytes.Buffer
	write := func(text string) error {
		_, err := io.WriteString(w, text)
		return err
	}
	separator := "{"
	for _, m := range all {
		begin := separator + "\n  \"" + m.name + "\": "
		separator = ","
		list := reflect.ValueOf(m.list)
		if !list.IsValid() || list.Len() == 0 {
			empty := "[]"
			if !list.IsValid() || list.IsNil() {
				empty = "null"
			}
			if err := write(begin + empty); err != nil {
				return err
			}
			continue
		}
		begin += "["
		for k := range list.Len() {
			buf.Reset()
			if err := writeIndented(&buf, list.Index(k).Interface(), "    "); err != nil {
				return err
			}
			if err := write(begin + "\n    " + strings.TrimRight(buf.String(), "\n")); err != nil {
				return err
			}
			begin = ","
		}
		if err := write("\n  ]"); err != nil {
			return err
		}
	}
	return write("\n}\n")
}
