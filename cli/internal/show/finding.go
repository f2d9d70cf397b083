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
	"crowsnest/unknown/discover"
	"crowsnest/unknown/sentinel"
)

// MaxFindings is the maximum number of findings that are listed by default.
const MaxFindings = 10

type foundFailure struct {
	Reason  replay.Doubt `json:"reason"`
	Missing string       `json:"missing"`
	Rule    string       `json:"rule"`
	// Severity is the severity of the rule. The severity in the labels is at most warning, because the failure is not
	// certain.
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
	OtherRules  []string          `json:"also,omitempty"`
	Fingerprint string            `json:"fingerprint"`
	// OtherFailures contains the other failures with the same rule and reason.
	OtherFailures []otherFailure `json:"others,omitempty"`
}

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
	for _, o := range f.OtherFailures {
		others = append(others, otherFailure{uncertainLabels(o.Labels, &f), o.Count, o.StartsAt, o.LastSeen, o.Line, o.Fingerprint.String()})
	}
	return foundFailure{
		Reason: f.Doubt, Missing: f.Missing, Rule: x.Alert, Severity: x.Labels["severity"], Labels: uncertainLabels(x.Labels, &f), Annotations: x.Annotations, Remediation: x.Annotations["remediation"],
		Lines: x.Count, StartsAt: x.StartsAt, LastSeen: x.LastSeen, EndsAt: x.EndsAt, Line: x.Line, First: x.First,
		Matched: f.Matched, OtherRules: f.OtherRules, Fingerprint: x.Fingerprint, OtherFailures: others,
	}
}

// FindingsJSON returns findings in a form that can be encoded as JSON.
func FindingsJSON(list []replay.Finding) any {
	out := make([]foundFailure, len(list))
	for i, f := range list {
		out[i] = toFoundFailure(f)
	}
	return out
}

// uncertainLabels returns a copy of the labels of an alert, with the severity of a finding.
func uncertainLabels(labels map[string]string, f *replay.Finding) map[string]string {
	labels = maps.Clone(labels)
	labels["severity"] = f.Severity()
	return labels
}

// WriteFindings writes failures that a rule describes but that are not certain. It writes at most MaxFindings of them,
// unless all is set. If after is set, other output precedes the findings, and an empty line separates them.
func WriteFindings(w io.Writer, list []replay.Finding, all, after bool, s Style) error {
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
			rest += 1 + len(list[i].OtherFailures)
			continue
		}
		b.WriteString("\n")
		shown := maxOthers
		if all {
			shown = len(list[i].OtherFailures)
		}
		rest += max(0, len(list[i].OtherFailures)-shown)
		writeFinding(&b, &list[i], shown, s)
	}
	if rest > 0 {
		fmt.Fprintf(&b, "\n--all lists %s\n", text.Plural(int64(rest), "more failure"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// maxOthers is the maximum number of further objects with the same failure that are named by default.
const maxOthers = 3

func writeFinding(b *strings.Builder, f *replay.Finding, others int, s Style) {
	e := f.Episode
	field := s.fieldWriter(b)
	recovered, title := f.Doubt == replay.Recovered, "NOT CERTAIN"
	if f.Doubt == replay.Untrusted {
		title = "NOT TRUSTED"
	}
	if recovered {
		fmt.Fprintf(b, "%s %s, %s\n", s.paint(green, "RECOVERED"), s.paint(bold, e.Alert), strings.TrimPrefix(f.Missing, "recovered "))
	} else {
		fmt.Fprintf(b, "%s %s (%s if it alerts)\n", s.paint(yellow, title), s.paint(bold, e.Alert), severityText(e))
	}
	if !recovered {
		field("would say", oneLine(e.Annotations["summary"]))
		field("missing", f.Missing)
	}
	field("line", s.markParts(oneLine(e.Line), f.Matched))
	field("where", DistinguishingLabels(e.Labels))
	for i := range f.OtherFailures[:min(len(f.OtherFailures), others)] {
		o := &f.OtherFailures[i]
		field("also where", cmp.Or(DistinguishingLabels(o.Labels), "no label")+", "+text.Plural(o.Count, "line"))
	}
	if n := len(f.OtherFailures) - others; n > 0 {
		field("", "and "+text.Plural(int64(n), "other object"))
	}
	field("since", sinceText(e))
	field("origin", oneLine(e.Annotations["origin"]))
	if recovered {
		return
	}
	field("also", strings.Join(f.OtherRules, ", "))
	field("what to do", e.Annotations["remediation"])
	field("runbook", e.Annotations["runbook_url"])
	field("affected", e.Annotations["affected"])
}

// markParts emphasizes parts of a line. It uses color if the style has color, and »« otherwise.
func (s Style) markParts(line string, parts []string) string {
	begin, end := "»", "«"
	if s.Color {
		begin, end = bold, reset
	}
	marked := make([]bool, len(line)+1) // whether each byte belongs to a part; an additional false element ends the last part
	for _, p := range parts {
		p = oneLine(p)
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

// WriteUnknown writes failures that no rule describes. after says whether other output precedes them.
func WriteUnknown(w io.Writer, all []sentinel.UnknownFailure, after bool) error {
	if len(all) == 0 {
		return nil
	}
	var b strings.Builder
	if after {
		b.WriteString("\n")
	}
	b.WriteString("Unknown failures: error lines that no rule describes\n")
	for i := range all {
		u := &all[i]
		fmt.Fprintf(&b, "\n%s in %s\n", strings.ToUpper(u.Reason), oneLine(u.Name()))
		field := Style{}.fieldWriter(&b)
		field("pattern", oneLine(u.Pattern))
		for _, also := range u.OtherTexts {
			field("also", oneLine(also))
		}
		field("about", oneLine(u.Object))
		field("where", oneLine(strings.Join(u.Pods, ", ")))
		seen := noTime
		if !u.Since.IsZero() {
			seen = fmt.Sprintf("%s, last seen %s", formatTime(u.Since), formatTime(u.Last))
		}
		field("since", seen+", at least "+text.Plural(u.Count, "line"))
		for _, e := range u.Examples {
			if e != u.Pattern {
				field("example", oneLine(e))
			}
		}
	}
	b.WriteString("\n`crowsnest discover` lists all problems without a rule, and its flag --rules-out writes rules for them.\n")
	_, err := io.WriteString(w, b.String())
	return err
}

const maxWidth = 300

const shownVariants = 2

// WritePatterns writes the patterns that the command discover found. If why is set, it also writes how the score of
// each pattern was computed.
func WritePatterns(w io.Writer, r discover.Report, why bool) error {
	for i, p := range r.Patterns {
		var b strings.Builder
		line := func(format string, args ...any) { fmt.Fprintf(&b, "     "+format+"\n", args...) }
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%3d. %s\n", i+1, shownLine(p.Template))
		if p.Error != "" {
			line("error: %s", shownLine(p.Error))
		}
		streams := text.Plural(int64(p.Streams), "stream")
		if p.MoreStreams {
			streams = fmt.Sprintf("%d or more streams", p.Streams)
		}
		line("%s; %s in %s%s", p.Level, text.Plural(p.Count, "line"), streams, seenPeriod(p))
		if why {
			line("%.1f points: %s", p.Score, strings.Join(p.Reasons, ", "))
		}
		for _, v := range p.Variants[:min(len(p.Variants), shownVariants)] {
			line("also, %s: %s", text.Plural(v.Count, "line"), shownLine((v.Template + ": " + v.Error).Map(func(s string) string { return strings.TrimSuffix(s, ": ") })))
		}
		if n := len(p.Variants) - shownVariants; n > 0 {
			line("also, in %s", text.Plural(int64(n), "more form"))
		}
		line("%s:%d: %s", p.Input, p.LineNumber, shownLine(p.Example))
		if _, err := io.WriteString(w, b.String()); err != nil {
			return err
		}
	}
	return nil
}

// seenPeriod formats the time range of a pattern's lines. It returns "" if the lines have no timestamps.
func seenPeriod(p discover.Pattern) string {
	switch {
	case p.First == nil:
		return ""
	case p.First.Equal(*p.Last):
		return "; " + p.First.Format(time.RFC3339)
	}
	return "; " + p.First.Format(time.RFC3339) + " to " + p.Last.Format(time.RFC3339)
}

func shownLine(line redact.Text) string {
	text := string(redact.Sanitise(line))
	if runes := []rune(text); len(runes) > maxWidth {
		text = string(runes[:maxWidth]) + "..."
	}
	return text
}
