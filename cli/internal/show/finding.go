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
	"crowsnest/rules"
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
}

func toFoundFailure(f replay.Finding) foundFailure {
	x := toScanned(replay.Alert{Episode: f.Episode})
	return foundFailure{
		Reason: f.Doubt, Missing: f.Missing, Rule: x.Alert, Severity: x.Labels["severity"], Labels: uncertain(f), Annotations: x.Annotations, Remediation: x.Annotations["remediation"],
		Lines: x.Count, StartsAt: x.StartsAt, LastSeen: x.LastSeen, EndsAt: x.EndsAt, Line: x.Line, First: x.First,
		Matched: f.Matched, Also: f.Also, Fingerprint: x.Fingerprint,
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

// uncertain returns the labels of the alert with the severity of a failure that is not certain: at
// most a warning, and no more than information if it is over.
func uncertain(f replay.Finding) map[string]string {
	labels := maps.Clone(f.Episode.Labels)
	switch {
	case f.Doubt == replay.Recovered && labels["severity"] != string(rules.SeverityNone):
		labels["severity"] = string(rules.SeverityInfo)
	case labels["severity"] == string(rules.SeverityCritical):
		labels["severity"] = string(rules.SeverityWarning)
	}
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
	groups := byRule(list)
	rest := 0
	for i, g := range groups {
		if i >= MaxFindings && !all {
			rest += len(g)
			continue
		}
		b.WriteString("\n")
		writeFinding(&b, &g[0], s)
		for i := 1; i < len(g) && all; i++ {
			fmt.Fprintf(&b, "  %s %s\n", s.paint(dim, fmt.Sprintf("%-*s", width, "also where")), keyOf(&g[i]))
		}
		if n := len(g) - 1; n > 0 && !all {
			rest += n
			fmt.Fprintf(&b, "  %s %d, such as %s\n", s.paint(dim, fmt.Sprintf("%-*s", width, "more keys")), n, keyOf(&g[1]))
		}
	}
	if rest > 0 {
		fmt.Fprintf(&b, "\n--all lists %s\n", text.Plural(int64(rest), "more finding"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// keyOf names the key of a finding.
func keyOf(f *replay.Finding) string { return cmp.Or(Where(f.Episode.Labels), "no label") }

// byRule returns the findings of each rule, in the order of the first one.
func byRule(list []replay.Finding) (out [][]replay.Finding) {
	at := map[string]int{}
	for _, f := range list {
		i, ok := at[f.Episode.Alert]
		if !ok {
			i = len(out)
			at[f.Episode.Alert] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], f)
	}
	return out
}

func writeFinding(b *strings.Builder, f *replay.Finding, s Style) {
	e := f.Episode
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(b, "  %s %s\n", s.paint(dim, fmt.Sprintf("%-*s", width, name)), indent(value))
		}
	}
	recovered := f.Doubt == replay.Recovered
	if recovered {
		fmt.Fprintf(b, "%s %s, %s\n", s.paint(green, "RECOVERED"), s.paint(bold, e.Alert), strings.TrimPrefix(f.Missing, "recovered "))
	} else {
		fmt.Fprintf(b, "%s %s (%s if it alerts)\n", s.paint(yellow, "NOT CERTAIN"), s.paint(bold, e.Alert), severity(e))
	}
	field("line", s.mark(flat(e.Line), f.Matched))
	field("where", Where(e.Labels))
	field("since", since(e))
	field("origin", flat(e.Annotations["origin"]))
	if recovered {
		return
	}
	field("missing", f.Missing)
	field("would say", flat(e.Annotations["summary"]))
	field("same lines", strings.Join(f.Also, ", "))
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
