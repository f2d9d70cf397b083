package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"crowsnest/internal/text"
	"crowsnest/redact"
	"crowsnest/redact/markdown"
)

// Bounds of the text that people read.
const (
	maxLine   = 300 // bytes of a log line
	maxLabels = 400 // bytes of labels
	// maxMarkdown is below GitHub's limit of 65,536 characters per comment, so that
	// others can add text.
	maxMarkdown = 60_000
	maxRows     = 60 // rules in a table
	maxNames    = 20 // names of rules in a sentence
)

// marker begins a report in Markdown. It identifies the comment that the next
// report replaces.
const marker = "<!-- crowsnest replay -->"

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
			rule.NotificationsBefore, rule.NotificationsAfter, rule.change())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, rule := range r.Rules {
		if len(rule.Examples) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s: %s\n", rule.Rule, rule.kinds())
		for _, e := range rule.Examples {
			fmt.Fprintf(&b, "%s %s\n    %s\n", e.sign(), e.text(), text.Shorten(e.Line, maxLine))
		}
		if n := rule.differs() - len(rule.Examples); n > 0 {
			fmt.Fprintf(&b, "  and %s more\n", text.Digits(int64(n)))
		}
	}
	if len(r.Unseen) > 0 {
		fmt.Fprintf(&b, "\nmatched no line: %s\n", names(r.Unseen))
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Markdown writes the report as a comment on a pull request or a summary of a
// workflow. It has at most 60,000 bytes, and no content of logs or rules acts as
// markup.
func (r Report) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n### crowsnest: what these rules would do\n\n**%s**\n\n", marker, markdown.Inert(r.Verdict))
	fmt.Fprintf(&b, "| | before | after |\n|---|---:|---:|\n")
	row := func(name string, before, after int64) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, text.Digits(before), text.Digits(after))
	}
	row("rules", int64(r.Before.Rules), int64(r.After.Rules))
	row("lines matched", r.Before.Matched, r.After.Matched)
	row("alerts", int64(r.Before.Alerts), int64(r.After.Alerts))
	row("notifications", int64(r.Before.Notifications), int64(r.After.Notifications))
	r.table(&b)
	end := r.footer()
	shown := 0
	for _, rule := range r.Rules {
		if len(rule.Examples) == 0 {
			continue
		}
		text := rule.details()
		if b.Len()+len(text)+len(end)+100 > maxMarkdown {
			break
		}
		b.WriteString(text)
		shown++
	}
	if n := withExamples(r.Rules) - shown; n > 0 {
		fmt.Fprintf(&b, "\nExamples of %s more are omitted.\n", count(n, "rule"))
	}
	b.WriteString(end)
	_, err := io.WriteString(w, b.String())
	return err
}

func withExamples(all []Rule) int {
	n := 0
	for _, r := range all {
		if len(r.Examples) > 0 {
			n++
		}
	}
	return n
}

func (r Report) table(b *strings.Builder) {
	if len(r.Rules) == 0 {
		return
	}
	b.WriteString("\n| rule | change | lines | alerts | notifications |\n|---|---|---:|---:|---:|\n")
	arrow := func(before, after int64) string { return text.Digits(before) + " → " + text.Digits(after) }
	for _, rule := range r.Rules[:min(maxRows, len(r.Rules))] {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", markdown.Inert(rule.Rule), markdown.Inert(rule.change()), arrow(rule.LinesBefore, rule.LinesAfter),
			arrow(int64(rule.AlertsBefore), int64(rule.AlertsAfter)), arrow(int64(rule.NotificationsBefore), int64(rule.NotificationsAfter)))
	}
	if n := len(r.Rules) - maxRows; n > 0 {
		fmt.Fprintf(b, "\n%s more.\n", count(n, "rule"))
	}
}

// details returns the examples of one rule, folded, in a fenced block, where
// nothing acts as markup. The fence is longer than any run of backticks in it.
func (r Rule) details() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n<details><summary>%s: %s</summary>\n\n", markdown.Element(r.Rule), markdown.Element(r.kinds()))
	var block strings.Builder
	for _, e := range r.Examples {
		fmt.Fprintf(&block, "%s %s\n%s   %s\n", e.sign(), redact.Sanitise(e.text()), e.sign(), redact.Sanitise(text.Shorten(e.Line, maxLine)))
	}
	b.WriteString(markdown.Block("diff", block.String()))
	if n := r.differs() - len(r.Examples); n > 0 {
		fmt.Fprintf(&b, "\n%s more.\n", text.Digits(int64(n)))
	}
	b.WriteString("\n</details>\n")
	return b.String()
}

func (r Report) footer() string {
	var b strings.Builder
	if len(r.Unseen) > 0 {
		fmt.Fprintf(&b, "\nNew or changed, and matched no line: %s.\n", markdown.Inert(names(r.Unseen)))
	}
	fmt.Fprintf(&b, "\n<sub>%s %s of %s", text.Digits(r.Lines), text.Noun(r.Lines, "line"), count(r.Inputs, "input"))
	if !r.Start.IsZero() {
		fmt.Fprintf(&b, ", from %s to %s", stamp(r.Start), stamp(r.End))
	}
	b.WriteString("; secrets are redacted.</sub>\n")
	return b.String()
}

func names(all []string) string {
	out := strings.Join(all[:min(maxNames, len(all))], ", ")
	if n := len(all) - maxNames; n > 0 {
		out += fmt.Sprintf(" and %s more", text.Digits(int64(n)))
	}
	return out
}
