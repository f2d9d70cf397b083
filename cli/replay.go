package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"

	commonconfig "github.com/prometheus/common/config"
	"github.com/spf13/cobra"

	"crowsnest/cli/internal/report"
	"crowsnest/cli/internal/show"
	"crowsnest/internal/text"
	"crowsnest/lab/scan"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/sources/loki"
)

type replayFlags struct {
	rules    ruleFlags
	against  []string
	streams  streamFlags
	all      bool
	examples int
	exitCode int
	output   *oneOf
	loki     lokiFlags
}

func newReplay(c *cli) *cobra.Command {
	f := replayFlags{output: newOneOf("text", "json")}
	cmd := &cobra.Command{
		Use:   "replay [flags] {FILE|FOLDER... | --loki URL}",
		Short: "Count the alerts of rules over recorded logs or Loki, or compare two versions of rules",
		RunE:  func(cmd *cobra.Command, args []string) error { return c.replay(cmd.Context(), f, args) },
	}
	f.rules.add(cmd)
	f.rules.addNamespaces(cmd)
	f.streams.add(cmd, "")
	flags := cmd.Flags()
	flags.StringArrayVar(&f.against, "against", nil, "compare with the previous rules: the packs and overrides at `PATH` (repeatable)")
	flags.BoolVar(&f.all, "all", false, "also list rules without matches or without differences")
	flags.Var(numberVar(&f.examples, 3, 0, 100), "examples", "with --against: maximum number of alerts to show per rule and kind of difference")
	flags.Var(numberVar(&f.exitCode, 0, 0, 255), "exit-code", "with --against: exit with this code if the alerts differ")
	flags.VarP(f.output, "output", "o", "output format")
	f.loki.add(cmd)
	return cmd
}

func (f *replayFlags) checkArgs(args []string) error {
	if len(f.against) == 0 && f.exitCode != 0 {
		return usageErrorf("--exit-code reports differences, so it needs --against")
	}
	return f.loki.checkArgs(args)
}

func (c *cli) replay(ctx context.Context, f replayFlags, args []string) (err error) {
	if err := f.checkArgs(args); err != nil {
		return err
	}
	if f.loki.url != "" {
		return c.replayLoki(ctx, f)
	}
	targets, err := c.replayTargets(f)
	if err != nil {
		return err
	}
	in, err := c.collect(ctx, logInput{args: args, labels: f.streams.labels, times: len(targets)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	now := time.Now()
	results := make([]scan.Result, len(targets))
	errs := []error{in.err}
	for i, target := range targets {
		var readErr error
		opt := replay.ScanOptions{Lenient: !f.streams.strict, Now: now, Redactor: redact.New(nil)}
		results[i], readErr = scan.Run(target, in.logs, opt)
		if i == 0 || errs[1] == nil {
			errs = append(errs, readErr) // the error is usually the same for each set, so it is kept once
		}
	}
	in.progress.end()
	c.reportSkipped(in.account)
	if err := checkRead(results[0].Lines, f.output.value, errors.Join(errs...)); err != nil {
		return err
	}
	if err := c.printReplay(f, targets, results, errors.Join(errs...)); err != nil {
		return err
	}
	reportIgnored(c.err, results[0].Report)
	in.account.Count(results[0].Outcomes)
	return checkInput(c.err, results[0].Report, in.account)
}

// printReplay prints the alerts of one rule set, or the differences between the alerts of two. It prints them even if
// err says that some inputs could not be read.
func (c *cli) printReplay(f replayFlags, targets []replay.Target, results []scan.Result, err error) error {
	if len(results) == 1 {
		return errors.Join(c.writeReplay(f, results[0]), err)
	}
	after := report.Side{Name: f.rules.describe(), Set: targets[0].Set, Report: results[0].Report}
	before := report.Side{Name: strings.Join(f.against, " "), Set: targets[1].Set, Report: results[1].Report}
	r := report.New(before, after, report.Options{Examples: f.examples, All: f.all})
	write := r.Text
	if f.output.value == "json" {
		write = func(w io.Writer) error { return show.JSON(w, r, true) }
	}
	if writeErr := write(c.out); writeErr != nil {
		return fmt.Errorf("write the result: %w", writeErr)
	}
	if err == nil && r.Changed && f.exitCode != 0 {
		return exitCode(f.exitCode)
	}
	return err
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
	// A range shorter than a day counts as a day, so that rates are not extrapolated.
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
	if err := errors.Join(w.Flush(), show.WriteFindings(c.out, r.Findings, f.all, true, show.Style{Color: c.colors(c.out)}), show.WriteUnknown(c.out, r.Unknown, true)); err != nil {
		return err
	}
	matched := "no line matched"
	if !r.Start.IsZero() {
		matched = fmt.Sprintf("matched lines from %s to %s", r.Start.Format(time.RFC3339), r.End.Format(time.RFC3339))
	}
	fmt.Fprintf(c.err, "%s from %s; %s\n", text.Plural(int64(r.Lines), "line"), text.Plural(int64(r.Inputs), "input"), matched)
	return nil
}

type lokiFlags struct {
	url, query   string
	since, until *instant
	tenant       string
	httpConfig   string
	rename       []string
}

func (f *lokiFlags) add(cmd *cobra.Command) {
	f.since, f.until = newSince(24*time.Hour), &instant{}
	flags := cmd.Flags()
	flags.StringVar(&f.url, "loki", "", "base `URL` of a Loki to read from, instead of files")
	flags.StringVar(&f.query, "query", "", "`SELECTOR` of the streams to read from Loki, such as {namespace=~\".+\"}")
	flags.Var(f.since, "since", "start of the range to read from Loki: a duration before its end, or an RFC 3339 time")
	flags.Var(f.until, "until", "end of the range to read from Loki: an RFC 3339 time (default: now)")
	flags.StringVar(&f.tenant, "tenant", "", "`TENANT` of Loki, sent as X-Scope-OrgID")
	flags.StringVar(&f.httpConfig, httpConfigFlag, "", "TLS and credentials for Loki: a `FILE` with Prometheus' http_config")
	flags.StringArrayVar(&f.rename, "loki.label", nil, "rename a label of Loki, `from=to` (repeatable)")
}

func (f *lokiFlags) checkArgs(args []string) error {
	switch {
	case f.url == "" && len(args) == 0:
		return usageErrorf("replay needs files or folders, or --loki URL")
	case f.url == "" && f.query != "":
		return usageErrorf("--query needs --loki")
	case f.url != "" && len(args) > 0:
		return usageErrorf("give files or --loki, not both")
	case f.url != "" && f.query == "":
		return usageErrorf("--loki needs --query with the streams to read, such as --query '{namespace=~\".+\"}'")
	}
	return nil
}

func (f *lokiFlags) sourceConfig(now time.Time) (cfg loki.Config, rg loki.Range, err error) {
	rg.To = now
	if f.until.text != "" {
		rg.To = f.until.at
	}
	if rg.From = f.since.resolve(rg.To); !rg.From.Before(rg.To) {
		return cfg, rg, usageErrorf("--since: %s is not before %s", rg.From.Format(time.RFC3339), rg.To.Format(time.RFC3339))
	}
	cfg.URL, cfg.Selector = f.url, f.query
	if f.tenant != "" {
		cfg.Tenants = []string{f.tenant}
	}
	if cfg.Labels, err = parseLabels(f.rename); err != nil {
		return cfg, rg, err
	}
	if f.httpConfig != "" {
		h, _, err := commonconfig.LoadHTTPConfigFile(f.httpConfig)
		if err != nil {
			return cfg, rg, fmt.Errorf("read --%s: %w", httpConfigFlag, err)
		}
		cfg.HTTP.HTTPClientConfig = *h
	}
	return cfg, rg, cfg.Validate()
}

// replayLoki replays a time range from Loki with one or two rule sets. It reads the range once for both.
func (c *cli) replayLoki(ctx context.Context, f replayFlags) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	cfg, rg, err := f.loki.sourceConfig(time.Now())
	if err != nil {
		return err
	}
	targets, err := c.replayTargets(f)
	if err != nil {
		return err
	}
	all := &rules.Set{}
	for _, t := range targets {
		all.Rules = slices.Concat(all.Rules, t.Set.Rules)
	}
	at := &rangeProgress{from: rg.From, to: rg.To}
	progress := c.startProgress("reading Loki", at.readPart)
	defer progress.end()
	lost := 0
	rg.Rules, rg.OnLost = all, func(reason, where string) {
		if lost++; lost <= 5 {
			fmt.Fprintf(c.err, "cannot read an entry of Loki: %s: %s\n", reason, where)
		}
	}
	reports, readErr := replay.ScanRecords(targets, func(emit func(*matcher.Stream, matcher.Record) error) error {
		return loki.ReadRange(ctx, cfg, rg, func(s *matcher.Stream, rec matcher.Record) error {
			at.setReached(rec.Time)
			return emit(s, rec)
		})
	}, replay.ScanOptions{Now: rg.To, End: rg.To, Redactor: redact.New(nil), Reads: loki.New(cfg)[0].Serves, Findings: len(targets) == 1})
	progress.end()
	if readErr != nil {
		return fmt.Errorf("%w (read: %s)", readErr, text.Plural(reports[0].Lines, "line"))
	}
	if lost > 0 {
		fmt.Fprintf(c.err, "%s of Loki could not be read\n", text.Plural(lost, "entry"))
	}
	results := make([]scan.Result, len(reports))
	for i := range reports {
		results[i].Report = reports[i]
		results[i].Start = rg.From // rates are computed for the whole range, not from the first line on
	}
	reportIgnored(c.err, reports[0])
	return c.printReplay(f, targets, results, nil)
}

func (c *cli) replayTargets(f replayFlags) ([]replay.Target, error) {
	target, err := f.rules.loadTarget(c)
	if err != nil || len(f.against) == 0 {
		return []replay.Target{target}, err
	}
	set, err := c.loadRules(f.against, withoutTests)
	if err != nil {
		return nil, err
	}
	set.Namespaces = target.Set.Namespaces
	previous, err := newTarget(set)
	return []replay.Target{target, previous}, err
}

// rangeProgress is the progress in reading a time range. It is safe for concurrent use.
type rangeProgress struct {
	from, to time.Time
	at       atomic.Int64 // time up to which the range was read, in nanoseconds since 1970
	lines    atomic.Int64
}

func (p *rangeProgress) setReached(t time.Time) {
	p.lines.Add(1)
	p.at.Store(t.UnixNano())
}

// readPart returns the fraction of the range that was read, and the time up to which it was read.
func (p *rangeProgress) readPart() (done float64, where string) {
	lines := p.lines.Load()
	if lines == 0 {
		return 0, "waiting for lines"
	}
	t := time.Unix(0, p.at.Load())
	return float64(t.Sub(p.from)) / float64(p.to.Sub(p.from)), fmt.Sprintf("%s, %s that may match", t.UTC().Format(time.RFC3339), text.Plural(lines, "line"))
}
