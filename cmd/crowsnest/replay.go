package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"crowsnest/cmd/crowsnest/internal/inputs"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/sources/kubelet"
)

// replayFlags are the flags of replay.
type replayFlags struct {
	rules        ruleFlags
	against      []string
	labels       []string
	strictLabels bool
	all          bool
	output       *oneOf
	loki         lokiFlags
}

func newReplay(c *cli) *cobra.Command {
	f := replayFlags{output: newOneOf("text", "json")}
	cmd := &cobra.Command{
		Use:   "replay [flags] {FILE|FOLDER... | --loki URL}",
		Short: "Count what rules would have done over recorded logs or over Loki, or compare two sets",
		Long: `Reads recorded logs as scan does, or a range of Loki's history, and prints per
rule the matched lines, the episodes, the alerts, and how many notifications a
day a receiver without grouping would have got. With --against it runs a second
set over the same lines and prints what that one fires more, less, earlier or
later.

From Loki only lines are read that one of the rules could match.`,
		Example: `  crowsnest replay --rules packs/ /var/log/pods
  crowsnest replay --rules packs.old/ --against packs/ /var/log/pods
  crowsnest replay --loki http://loki:3100 --query '{namespace=~".+"}' --since 24h --rules packs/`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.replay(cmd.Context(), f, args) },
	}
	f.rules.add(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&f.against, "against", nil, "compare with the packs and overrides at `PATH` (repeatable)")
	flags.StringArrayVar(&f.labels, "label", nil, "label of every stream, `name=value` (repeatable)")
	flags.BoolVar(&f.strictLabels, "strict-labels", false, "a label that is not stated satisfies no selector")
	flags.BoolVar(&f.all, "all", false, "also list rules that matched nothing")
	flags.VarP(f.output, "output", "o", "form of the output")
	f.loki.add(cmd)
	return cmd
}

func (c *cli) replay(ctx context.Context, f replayFlags, args []string) error {
	if err := f.loki.check(args); err != nil {
		return err
	}
	if f.loki.url != "" {
		return c.replayLoki(ctx, f)
	}
	labels, err := parseLabels(f.labels)
	if err != nil {
		return err
	}
	set, err := f.rules.load(c)
	if err != nil {
		return err
	}
	over := func(set *rules.Set) (replay.Report, error) { return c.replayOver(set, f, labels, args) }
	before, err := over(set)
	if err != nil {
		return err
	}
	if len(f.against) == 0 {
		return c.writeReplay(f, before)
	}
	other, err := c.loadRules(nil, f.against)
	if err != nil {
		return err
	}
	after, err := over(other)
	if err != nil {
		return err
	}
	return c.writeChanges(f, replay.Compare(before, after))
}

func (c *cli) replayOver(set *rules.Set, f replayFlags, labels matcher.Labels, args []string) (replay.Report, error) {
	program, err := matcher.Compile(set)
	if err != nil {
		return replay.Report{}, fmt.Errorf("compile rules: %w", err)
	}
	logs, _, findErr := inputs.Collect(args, inputs.Options{Labels: labels, PathLabels: kubelet.PathLabels, Stdin: c.in})
	report, err := replay.Scan(set, program, logs, replay.ScanOptions{
		Lenient: !f.strictLabels, Now: time.Now(), Redactor: redact.New(nil),
	})
	return report, errors.Join(findErr, err)
}

// replayedRule is a rule in machine output.
type replayedRule struct {
	Rule                string  `json:"rule"`
	Lines               int64   `json:"lines"`
	Episodes            int     `json:"episodes"`
	Alerts              int     `json:"alerts"`
	AlertsPerDay        float64 `json:"alerts_per_day"`
	NotificationsPerDay float64 `json:"notifications_per_day"`
	Example             string  `json:"example,omitempty"`
}

func (c *cli) writeReplay(f replayFlags, r replay.Report) error {
	examples := map[string]string{}
	for _, a := range r.Alerts {
		if examples[a.Episode.Alert] == "" {
			examples[a.Episode.Alert] = a.Episode.Line
		}
	}
	// Less than a day is not scaled up: an hour says nothing about a day.
	days := max(r.End.Sub(r.Start).Hours()/24, 1)
	out := []replayedRule{}
	for _, rule := range r.Rules {
		if rule.Lines == 0 && rule.Alerts == 0 && !f.all {
			continue
		}
		out = append(out, replayedRule{
			Rule: rule.Rule.Alert, Lines: rule.Lines, Episodes: rule.Episodes, Alerts: rule.Alerts,
			AlertsPerDay: float64(rule.Alerts) / days, NotificationsPerDay: float64(rule.Notifications) / days,
			Example: examples[rule.Rule.Alert],
		})
	}
	if f.output.value == "json" {
		return encode(c.out, map[string]any{"start": r.Start, "end": r.End, "lines": r.Lines, "rules": out}, true)
	}
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "RULE\tLINES\tEPISODES\tALERTS\tNOTIFICATIONS PER DAY\tEXAMPLE")
	for _, rule := range out {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.1f\t%.100s\n", rule.Rule, rule.Lines, rule.Episodes, rule.Alerts, rule.NotificationsPerDay, rule.Example)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(c.err, "%d lines from %d inputs; matched lines from %s to %s\n", r.Lines, r.Inputs, r.Start.Format(time.RFC3339), r.End.Format(time.RFC3339))
	return nil
}

// writeChanges prints what the second set does otherwise.
func (c *cli) writeChanges(f replayFlags, changes []replay.Change) error {
	if f.output.value == "json" {
		return encode(c.out, map[string]any{"changes": summarize(changes)}, true)
	}
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "RULE\tLINES\tALERTS\tMORE\tLESS\tEARLIER\tLATER")
	for _, ch := range changes {
		if ch.Same() && ch.LinesBefore == ch.LinesAfter && !f.all {
			continue
		}
		fmt.Fprintf(w, "%s\t%d > %d\t%d > %d\t%d\t%d\t%d\t%d\n", ch.Rule, ch.LinesBefore, ch.LinesAfter, ch.Before, ch.After,
			len(ch.More), len(ch.Less), len(ch.Earlier), len(ch.Later))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, ch := range changes {
		if err := writeExamples(c.out, ch); err != nil {
			return err
		}
	}
	return nil
}

// writeExamples prints a few of the alerts that only one set raises.
func writeExamples(w io.Writer, ch replay.Change) error {
	for _, side := range []struct {
		sign   string
		alerts []replay.Alert
	}{{"+", ch.More}, {"-", ch.Less}} {
		for _, a := range side.alerts[:min(3, len(side.alerts))] {
			if _, err := fmt.Fprintf(w, "%s %s %s %.160s\n", side.sign, a.Fired.Format(time.RFC3339), ch.Rule, a.Episode.Line); err != nil {
				return err
			}
		}
	}
	return nil
}

// changedRule is a change in machine output.
type changedRule struct {
	Rule         string `json:"rule"`
	LinesBefore  int64  `json:"lines_before"`
	LinesAfter   int64  `json:"lines_after"`
	AlertsBefore int    `json:"alerts_before"`
	AlertsAfter  int    `json:"alerts_after"`
	More         int    `json:"more"`
	Less         int    `json:"less"`
	Earlier      int    `json:"earlier"`
	Later        int    `json:"later"`
}

func summarize(changes []replay.Change) []changedRule {
	out := make([]changedRule, len(changes))
	for i, ch := range changes {
		out[i] = changedRule{
			ch.Rule, ch.LinesBefore, ch.LinesAfter, ch.Before, ch.After,
			len(ch.More), len(ch.Less), len(ch.Earlier), len(ch.Later),
		}
	}
	return out
}
