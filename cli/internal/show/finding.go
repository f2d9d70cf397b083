package show

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"crowsnest/internal/text"
	"crowsnest/redact"
	"crowsnest/replay"
)

// MaxFindings is how many findings are listed unless all are wanted.
const MaxFindings = 10

// foundFailure is the JSON form of a replay.Finding.
type foundFailure struct {
	Reason  replay.Doubt `json:"reason"`
	Missing string       `json:"missing"`
	Rule    string       `json:"rule"`
	// Severity is that of the alert. In the labels it is at most a warning, because the failure is
	// not certain.
	Severity    string            `json:"alert_severity"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Remediation string            `json:"remediation,omitempty"`
	Lines       int64             `json:"lines"`
	StartsAt    time.Time         `json:"starts_at,omitzero"`
	LastSeen    time.Time         `json:"last_seen,omitzero"`
	EndsAt      *time.Time        `json:"ends_at,omitempty"`
	Line        redact.Text       `json:"line"`
	First       redact.Text       `json:"first_line"`
	Matched     []string          `json:"matched,omitempty"`
	Also        []string          `json:"also,omitempty"`
	Fingerprint string            `json:"fingerprint"`
	// Others are the further failures of the rule with this reason.
	Others []otherFailure `json:"others,omitempty"`
}

// otherFailure is a failure beside one of the same rule.
type otherFailure struct {
	Labels      map[string]string `json:"labels"`
	Lines       int64             `json:"lines"`
	StartsAt    time.Time         `json:"starts_at,omitzero"`
	LastSeen    time.Time         `json:"last_seen,omitzero"`
	Line        redact.Text       `json:"line"`
	Fingerprint string            `json:"fingerprint"`
}

func toFoundFailure(f replay.Finding) foundFailure {
	x := toScanned(replay.Alert{Episode: f.Episode})
	var others []otherFailure
	for _, o := range f.Others {
		others = append(others, otherFailure{uncertain(o.Labels, &f), o.Count, o.StartsAt, o.LastSeen, o.Line, o.Fingerprint.String()})
	}
	return foundFailure{
		Reason: f.Doubt, Missing: f.Missing, Rule: x.Alert, Severity: x.Labels["severity"], Labels: uncertain(x.Labels, &f), Annotations: x.Annotations, Remediation: x.Annotations["remediation"],
		Lines: x.Count, StartsAt: x.StartsAt, LastSeen: x.LastSeen, EndsAt: x.EndsAt, Line: x.Line, First: x.First,
		Matched: f.Matched, Also: f.Also, Fingerprint: x.Fingerprint, Others: others,
	}
}

// FindingsJSON returns a list of values to encode as JSON.
func FindingsJSON(list []replay.Finding) any {
	out := make([]foundFailure, len(list))
	for i, f := range list {
		out[i] = toFoundFailure(f)
	}
	return out
}

// uncertain returns labels of an alert with the severity of a finding.
func uncertain(labels map[string]string, f *replay.Finding) map[string]string {
	labels = maps.Clone(labels)
	labels["severity"] = f.Severity()
	return labels
}

// Findings writes failures that are described but not certain, at most MaxFindings of them unless
// all are wanted. With after, something was written before.
func Findings(w io.Writer, list []replay.Finding, all, after bool, s Style) error {
	if len(list) == 0 {
		return nil
	}
	var b strings.Builder
	if after {
		b.WriteString("\n")
	}
	b.WriteString("Described but not certain: rules match lines of this log, and an alert needs more\n")
	rest := 0
	for i := range list {
		if i >= MaxFindings && !all {
			rest += 1 + len(list[i].Others)
			continue
		}
		b.WriteString("\n")
		shown := maxOthers
		if all {
			shown = len(list[i].Others)
		}
		rest += max(0, len(list[i].Others)-shown)
		writeFinding(&b, &list[i], shown, s)
	}
	if rest > 0 {
		fmt.Fprintf(&b, "\n--all lists %s\n", text.Plural(int64(rest), "more failure"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// maxOthers is how many other objects of a rule are named unless all are wanted.
const maxOthers = 3

// writeFinding writes a finding, with the names of at most others further objects.
func writeFinding(b *strings.Builder, f *replay.Finding, others int, s Style) {
	e := f.Episode
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(b, "  %s %s\n", s.paint(dim, fmt.Sprintf("%-*s", width, name)), indent(value))
		}
	}
	recovered, title := f.Doubt == replay.Recovered, "NOT CERTAIN"
	if f.Doubt == replay.Untrusted {
		title = "NOT TRUSTED"
	}
	if recovered {
		fmt.Fprintf(b, "%s %s, %s\n", s.paint(green, "RECOVERED"), s.paint(bold, e.Alert), strings.TrimPrefix(f.Missing, "recovered "))
	} else {
		fmt.Fprintf(b, "%s %s (%s if it alerts)\n", s.paint(yellow, title), s.paint(bold, e.Alert), severity(e))
	}
	if !recovered {
		field("would say", flat(e.Annotations["summary"]))
		field("missing", f.Missing)
	}
	field("line", s.mark(flat(e.Line), f.Matched))
	field("where", Where(e.Labels))
	for i := range f.Others[:min(len(f.Others), others)] {
		o := &f.Others[i]
		field("also where", cmp.Or(Where(o.Labels), "no label")+", "+text.Plural(o.Count, "line"))
	}
	if n := len(f.Others) - others; n > 0 {
		field("", "and "+text.Plural(int64(n), "other object"))
	}
	field("since", since(e))
	field("origin", flat(e.Annotations["origin"]))
	if recovered {
		return
	}
	field("also", strings.Join(f.Also, ", "))
	field("what to do", e.Annotations["remediation"])
	field("runbook", e.Annotations["runbook_url"])
	field("affected", e.Annotations["affected"])
}

// mark emphasizes parts of a line: on a terminal with color, else with » and «.
func (s Style) mark(line string, parts []string) string {
	begin, end := "»", "«"
	if s.Color {
		begin, end = bold, reset
	}
	marked := make([]bool, len(line)+1) // bytes; the last one ends the last part
	for _, p := range parts {
		p = flat(p)
		if at := strings.Index(line, p); at >= 0 {
			for i := range p {
				marked[at+i] = true
			}
		}
	}
	var b strings.Builder
	open := false
	for i, r := range line + "\x00" {
		if marked[i] != open {
			b.WriteString(map[bool]string{true: begin, false: end}[marked[i]])
			open = !open
		}
		if i < len(line) {
			b.WriteRune(r)
		}
	}
	return b.String()
}
