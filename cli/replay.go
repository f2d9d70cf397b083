package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"crowsnest/cli/internal/findings"
	"crowsnest/cli/internal/report"
	"crowsnest/cli/internal/show"
	"crowsnest/internal/text"
	"crowsnest/lab/inputs"
	"crowsnest/lab/scan"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/rules"
)

type replayFlags struct {
	rules        ruleFlags
	against      []string
	labels       []string
	strictLabels bool
	all          bool
	examples     int
	exitCode     int
	output       *oneOf
	loki         lokiFlags
}

func newReplay(c *cli) *cobra.Command {
	f := replayFlags{output: newOneOf("text", "json", "markdown", "github")}
	cmd := &cobra.Command{
		Use:   "replay [flags] {FILE|FOLDER... | --loki URL}",
		Short: "Count the alerts of rules over recorded logs or Loki, or compare two versions of rules",
		Long: `Reads recorded logs as scan does, or a range of Loki's history, and prints for
each rule the matched lines, the episodes, the alerts, and the notifications per
day that a receiver without grouping would have received.

With --against it also runs the previous rules over the same lines and prints the
differences: alerts that fire more often, less often, earlier, later, with other
labels, or end differently, with examples. -o markdown is for a comment on a pull
request, -o github annotates the changed rules, and --exit-code reports to a script
that the alerts differ.

From Loki it reads only lines that one of the rules could match.`,
		Example: `  crowsnest replay --rules packs/ /var/log/pods
  crowsnest replay --rules packs/ --against packs.old/ /var/log/pods
  crowsnest replay --rules packs/ --against packs.old/ -o markdown incidents/ > comment.md
  crowsnest replay --loki http://loki:3100 --query '{namespace=~".+"}' --since 24h --rules packs/`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.replay(cmd.Context(), f, args) },
	}
	f.rules.add(cmd)
	f.rules.addNamespaces(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&f.against, "against", nil, "compare with the previous rules: the packs and overrides at `PATH` (repeatable)")
	flags.StringArrayVar(&f.labels, "label", nil, "label of every stream, `name=value` (repeatable)")
	flags.BoolVar(&f.strictLabels, "strict-labels", false, "an unknown label satisfies no selector")
	flags.BoolVar(&f.all, "all", false, "also list rules without matches or without differences")
	flags.Var(numberVar(&f.examples, 3, 0, 100), "examples", "with --against: maximum number of alerts to show per rule and kind of difference")
	flags.Var(numberVar(&f.exitCode, 0, 0, 255), "exit-code", "with --against: exit with this code if the alerts differ")
	flags.VarP(f.output, "output", "o", "output format")
	f.loki.add(cmd)
	return cmd
}

// check returns an error about flags that exclude each other.
func (f *replayFlags) check(args []string) error {
	switch comparing := len(f.against) > 0; {
	case !comparing && f.output.value != "text" && f.output.value != "json":
		return usageErrorf("-o %s needs --against: it prints differences", f.output.value)
	case !comparing && f.exitCode != 0:
		return usageErrorf("--exit-code needs --against: it reports differences")
	}
	return f.loki.check(args)
}

func (c *cli) replay(ctx context.Context, f replayFlags, args []string) error {
	if err := f.check(args); err != nil {
		return err
	}
	if f.loki.url != "" {
		return c.replayLoki(ctx, f)
	}
	labels, err := parseLabels(f.labels)
	if err != nil {
		return err
	}
	sets, err := c.replaySets(f)
	if err != nil {
		return err
	}
	opt, remove, err := c.inputs(labels)
	if err != nil {
		return err
	}
	defer remove() //nolint:errcheck // the system cleans its temporary directory
	progress := c.startProgress("reading", nil)
	defer progress.end()
	logs, account, findErr := inputs.Collect(args, opt)
	for range sets { // each reads all of it
		progress.expect(logs)
	}
	progress.watch(logs)
	now := time.Now()
	results := make([]scan.Result, len(sets))
	errs := []error{findErr}
	for i, set := range sets {
		program, err := matcher.CompileOpen(set)
		if err != nil {
			return fmt.Errorf("compile rules: %w", err)
		}
		var readErr error
		opt := replay.ScanOptions{Lenient: !f.strictLabels, Now: now, Redactor: redact.New(nil)}
		results[i], readErr = scan.Run(replay.Target{Set: set, Program: program}, logs, opt)
		if i == 0 || errs[1] == nil {
			errs = append(errs, readErr) // usually the same for each set
		}
	}
	progress.end()
	c.reportSkipped(account)
	if err := checkRead(results[0].Lines, f.output.value, errors.Join(errs...)); err != nil {
		return err
	}
	if err := c.printReplay(f, sets, results, errors.Join(errs...)); err != nil {
		return err
	}
	reportIgnored(c.err, results[0].Report)
	account.Count(results[0].Outcomes)
	return checkInput(c.err, results[0].Report, account)
}

// printReplay prints the result of one set, or the differences of two, even if err
// says that some inputs could not be read.
func (c *cli) printReplay(f replayFlags, sets []*rules.Set, results []scan.Result, err error) error {
	if len(results) == 1 {
		return errors.Join(c.writeReplay(f, results[0]), err)
	}
	after := report.Side{Name: f.rules.name(), Set: sets[0], Report: results[0].Report}
	before := report.Side{Name: strings.Join(f.against, " "), Set: sets[1], Report: results[1].Report}
	r := report.New(before, after, report.Options{Examples: f.examples, All: f.all})
	if writeErr := writeChanges(c.out, f.output.value, r); writeErr != nil {
		return fmt.Errorf("write the result: %w", writeErr)
	}
	if err == nil && r.Changed && f.exitCode != 0 {
		return exitCode(f.exitCode)
	}
	return err
}

// writeChanges prints the differences of two sets.
func writeChanges(w io.Writer, form string, r report.Report) error {
	switch form {
	case "json":
		return show.JSON(w, r, true)
	case "markdown":
		return r.Markdown(w)
	case "github":
		verdict := findings.Finding{Level: findings.Notice, Check: findings.Verdict, Message: r.Verdict}
		return writeFindings(w, append([]findings.Finding{verdict}, r.Findings()...))
	}
	return r.Text(w)
}

type replayedRule struct {
	Rule                string  `json:"rule"`
	Lines               int64   `json:"lines"`
	Episodes            int     `json:"episodes"`
	Alerts              int     `json:"alerts"`
	AlertsPerDay        float64 `json:"alerts_per_day"`
	NotificationsPerDay float64 `json:"notifications_per_day"`
	Example             string  `json:"example,omitempty"`
}

func (c *cli) writeReplay(f replayFlags, r scan.Result) error {
	examples := map[string]string{}
	for _, a := range r.Alerts {
		if examples[a.Episode.Alert] == "" {
			examples[a.Episode.Alert] = string(a.Episode.Line)
		}
	}
	// Do not extrapolate from less than a day.
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
		return show.JSON(c.out, map[string]any{"start": r.Start, "end": r.End, "lines": r.Lines, "rules": out, "findings": show.FindingsJSON(r.Findings), "unknown": r.Unknown}, true)
	}
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "RULE\tLINES\tEPISODES\tALERTS\tNOTIFICATIONS PER DAY\tEXAMPLE")
	for _, rule := range out {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.1f\t%.100s\n", rule.Rule, rule.Lines, rule.Episodes, rule.Alerts, rule.NotificationsPerDay, rule.Example)
	}
	if err := errors.Join(w.Flush(), show.Findings(c.out, r.Findings, f.all, true, show.Style{Color: c.colors(c.out)}), show.Unknown(c.out, r.Unknown, true)); err != nil {
		return err
	}
	matched := "no line matched"
	if !r.Start.IsZero() {
		matched = fmt.Sprintf("matched lines from %s to %s", r.Start.Format(time.RFC3339), r.End.Format(time.RFC3339))
	}
	fmt.Fprintf(c.err, "%s from %s; %s\n", text.Plural(int64(r.Lines), "line"), text.Plural(int64(r.Inputs), "input"), matched)
	return nil
}
