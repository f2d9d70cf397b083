package stdout

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/text"
	"crowsnest/redact"
	"crowsnest/rules"
	"crowsnest/sinks/internal/delivery"
)

// Record is one line of the JSON format. Its field names are stable. Fields may be added but are not renamed.
type Record struct {
	Time        time.Time         `json:"time"`   // time at which the record was written
	Status      string            `json:"status"` // "firing" or "resolved"
	Alertname   string            `json:"alertname"`
	Severity    string            `json:"severity,omitempty"`
	Labels      map[string]string `json:"labels"`      // labels, which identify the alert
	Annotations map[string]string `json:"annotations"` // texts of the alert for people
	StartsAt    time.Time         `json:"starts_at"`
	EndsAt      time.Time         `json:"ends_at,omitzero"`
	LastSeen    time.Time         `json:"last_seen,omitzero"` // time of the newest line that kept the episode open
	Count       int64             `json:"count"`              // number of lines of the episode so far
	Line        string            `json:"line,omitempty"`     // newest line of the episode
	FirstLine   string            `json:"first_line,omitempty"`
	// Fingerprint has 16 hexadecimal digits. A restart does not change it.
	Fingerprint string `json:"fingerprint"`
	Reason      string `json:"reason,omitempty"` // reason why the episode ended, such as clear, quiet or expired
	// Overflow is set if the alert represents all keys beyond a rule's limit.
	Overflow bool `json:"overflow,omitempty"`
}

// newRecord returns the record of an episode at now. Its texts are harmless on terminals.
func newRecord(ep episodes.Episode, resolved bool, now time.Time) Record {
	r := Record{
		Time: now.UTC(), Status: "firing", Alertname: redact.Sanitise(ep.Alert),
		Severity: redact.Sanitise(ep.Labels["severity"]), Labels: mapped(ep.Labels, redact.Sanitise), Annotations: mapped(ep.Annotations, delivery.CleanLines),
		StartsAt: ep.StartsAt.UTC(), LastSeen: ep.LastSeen.UTC(), Count: ep.Count,
		Line: string(redact.Sanitise(ep.Line)), FirstLine: string(redact.Sanitise(ep.FirstLine)),
		Fingerprint: ep.Fingerprint.String(), Overflow: ep.Overflow,
	}
	if resolved {
		r.Status, r.Reason, r.EndsAt = "resolved", string(ep.Reason), ep.EndsAt.UTC()
	}
	return r
}

// JSON returns the record as one line of JSON with a newline.
func (r Record) JSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return nil, fmt.Errorf("encode alert %s: %w", r.Fingerprint, err)
	}
	return b.Bytes(), nil
}

// Text returns the record in a form for the person on call. It shows what failed, how severe it
// is, where, since when, the log line, and what to do. It ends with an empty line.
func (r Record) Text(color bool) []byte {
	p := &page{color: color}
	p.head(r)
	p.field("where", where(r.Labels))
	p.field("since", r.since())
	a := r.Annotations
	p.field("what", a["summary"])
	p.field("", a["description"])
	p.field("line", r.Line)
	if r.Status == "firing" {
		p.field("do", a["remediation"])
		p.field("runbook", a["runbook_url"])
		p.field("affected", affected(a))
		p.field("logs", a["logs_url"])
	}
	p.b.WriteByte('\n')
	return p.b.Bytes()
}

func (r Record) since() string {
	s := r.StartsAt.Format(time.RFC3339)
	end := r.Time
	if !r.EndsAt.IsZero() {
		end = r.EndsAt
		s += " until " + end.Format(time.RFC3339)
	}
	if d := end.Sub(r.StartsAt).Round(time.Second); d > 0 {
		s += " (" + d.String() + ")"
	}
	switch {
	case r.Count == 1:
		s += ", 1 line"
	case r.Count > 1:
		s += fmt.Sprintf(", %s", text.Plural(r.Count, "line"))
	}
	if r.Reason != "" {
		s += ", ended by: " + r.Reason
	}
	return s
}

func where(labels map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if name != "alertname" && name != "severity" && name != "resolves" {
			out = append(out, name+"="+labels[name])
		}
	}
	return strings.Join(out, " ")
}

func affected(a map[string]string) string {
	s, fixed := a["affected"], a["fixed_in"]
	if fixed == "" || strings.Contains(s, fixed) {
		return s
	}
	return strings.TrimPrefix(s+", fixed in "+fixed, ", ")
}

type page struct {
	b     bytes.Buffer
	color bool
}

// ANSI codes of colours that are readable with any theme.
const (
	bold   = "1"
	faint  = "2"
	red    = "1;31"
	green  = "1;32"
	yellow = "1;33"
	cyan   = "1;36"
)

func (p *page) paint(code, s string) string {
	if !p.color || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p *page) head(r Record) {
	code := cyan
	switch {
	case r.Status != "firing":
		code = green
	case r.Severity == string(rules.SeverityCritical):
		code = red
	case r.Severity == string(rules.SeverityWarning):
		code = yellow
	}
	head := strings.TrimSpace(strings.ToUpper(r.Status) + " " + r.Severity)
	fmt.Fprintf(&p.b, "%s %s %s\n", r.Time.Format(time.RFC3339), p.paint(code, head), p.paint(bold, r.Alertname))
}

// field writes a name and its text. Further lines of the text are placed below the first one.
func (p *page) field(name, text string) {
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if line = strings.TrimRight(line, " "); line == "" {
			continue
		}
		if i > 0 {
			name = ""
		}
		fmt.Fprintf(&p.b, "  %s %s\n", p.paint(faint, fmt.Sprintf("%-8s", name)), line)
	}
}

func mapped(in map[string]string, f func(string) string) map[string]string {
	out := make(map[string]string, len(in))
	for name, text := range in {
		out[redact.Sanitise(name)] = f(text)
	}
	return out
}
