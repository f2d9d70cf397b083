package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"crowsnest/internal/text"
	"crowsnest/redact"
)

// Limits of the text report.
const (
	maxLine   = 300 // bytes of a log line
	maxLabels = 400 // bytes of labels
	maxNames  = 20  // number of rules that a sentence names
)

// Text writes the report for a terminal.
func (r Report) Text(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n\n", r.Verdict)
	t := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "RULE\tLINES\tALERTS\tNOTIFICATIONS\tCHANGE")
	fmt.Fprintf(t, "(all)\t%d > %d\t%d > %d\t%d > %d\tbefore: %s, after: %s\n", r.Before.Matched, r.After.Matched, r.Before.Alerts, r.After.Alerts,
		r.Before.Notifications, r.After.Notifications, redact.Sanitise(r.Before.Name), redact.Sanitise(r.After.Name))
	for _, rule := range r.Rules {
		fmt.Fprintf(t, "%s\t%d > %d\t%d > %d\t%d > %d\t%s\n", rule.Rule, rule.LinesBefore, rule.LinesAfter, rule.AlertsBefore, rule.AlertsAfter,
			rule.NotificationsBefore, rule.NotificationsAfter, rule.changeText())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, rule := range r.Rules {
		if len(rule.Examples) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s: %s\n", rule.Rule, rule.countKinds())
		for _, e := range rule.Examples {
			fmt.Fprintf(&b, "%s %s\n    %s\n", e.signMark(), e.exampleText(), text.Shorten(e.Line, maxLine))
		}
		if n := rule.countDiffering() - len(rule.Examples); n > 0 {
			fmt.Fprintf(&b, "  and %s more\n", text.GroupThousands(int64(n)))
		}
	}
	if len(r.Unseen) > 0 {
		fmt.Fprintf(&b, "\nmatched no line: %s\n", joinNames(r.Unseen))
	}
	_, err := w.Write(b.Bytes())
	return err
}

func joinNames(all []string) string {
	out := strings.Join(all[:min(maxNames, len(all))], ", ")
	if n := len(all) - maxNames; n > 0 {
		out += fmt.Sprintf(" and %s more", text.GroupThousands(int64(n)))
	}
	return out
}
