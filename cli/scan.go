package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"crowsnest/cli/internal/follow"
	"crowsnest/cli/internal/show"
	"crowsnest/episodes"
	"crowsnest/internal/text"
	"crowsnest/lab/inputs"
	"crowsnest/lab/scan"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/sources/kubelet"
)

type scanFlags struct {
	rules    ruleFlags
	streams  streamFlags
	hits     bool
	all      bool
	asides   bool
	follow   bool
	untilEOF bool
	redact   bool
	exitCode int
	cluster  clusterFlags
	output   *oneOf
}

func newScan(c *cli) *cobra.Command {
	f := scanFlags{output: newOneOf("text", "json", "jsonl", "html")}
	cmd := &cobra.Command{
		Use:   "scan [flags] [FILE|FOLDER|-]...",
		Short: "Find known failures in files, folders, archives or standard input",
		RunE:  func(cmd *cobra.Command, args []string) error { return c.scan(cmd.Context(), f, args) },
	}
	f.rules.add(cmd)
	f.rules.addNamespaces(cmd)
	f.streams.add(cmd, "")
	flags := cmd.Flags()
	flags.BoolVar(&f.hits, "hits", false, "print every line that matches a rule, instead of alerts")
	flags.BoolVar(&f.all, "all", false, fmt.Sprintf("list every failure that is not certain, not only %d", show.MaxFindings))
	flags.BoolVar(&f.asides, "asides", false, "with --hits: also print lines that match only clear or unless")
	flags.BoolVarP(&f.follow, "follow", "f", false, "continue with the lines that are written from now on, until Ctrl-C")
	flags.BoolVar(&f.untilEOF, "until-eof", false, "stop the clock at the end of the input")
	flags.BoolVar(&f.redact, "redact", true, "redact secrets in the output")
	flags.Var(numberVar(&f.exitCode, 0, 0, 255), "exit-code", "exit with this code if an alert fired")
	flags.VarP(f.output, "output", "o", "output format")
	f.cluster.add(cmd)
	return cmd
}

func (c *cli) scan(ctx context.Context, f scanFlags, args []string) error {
	err := f.cluster.checkArgs(args, f.follow)
	if err == nil && !f.cluster.isUsed {
		args, err = c.logArgs(args, "scan needs a file, a folder, - for standard input, or --cluster")
	}
	if err != nil {
		return err
	}
	if f.follow && f.output.value == "json" {
		return usageErrorf("-o json prints one document at the end: with --follow use -o jsonl")
	}
	if f.output.value == "html" {
		return c.scanPage(ctx, f, args)
	}
	target, err := f.rules.loadTarget(c)
	if err != nil {
		return err
	}
	if f.follow {
		return c.scanFollow(ctx, f, args, target)
	}
	return c.scanRecorded(ctx, f, args, target)
}

func (c *cli) scanPage(ctx context.Context, f scanFlags, args []string) error {
	if f.follow || f.hits || !f.redact || f.exitCode != 0 {
		return usageErrorf("-o html takes neither --follow, --hits, --exit-code nor --redact=false")
	}
	return c.caseOfLogs(ctx, caseFlags{
		rules: f.rules, streams: f.streams, untilEOF: f.untilEOF, cluster: f.cluster, output: f.output,
	}, args)
}

func (c *cli) scanRecorded(ctx context.Context, f scanFlags, args []string, target replay.Target) (err error) {
	c.liveOutput = f.hits && isTerminal(c.out)
	in, err := c.collect(ctx, logInput{args: args, labels: f.streams.labels, cluster: f.cluster, set: target.Set, times: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	out := bufio.NewWriterSize(c.out, 64<<10)
	hits := &show.Hits{W: out, Form: f.output.value, WithClearLines: f.asides}
	opt := f.scanOptions(hits)
	in.cluster.prepareReading(in.logs, &opt)
	var result scan.Result
	var readErr error
	if f.hits {
		result.Report, readErr = replay.Scan(target.Set, target.Program, in.logs, opt)
	} else {
		result, readErr = scan.Run(target, in.logs, opt)
	}
	report := result.Report
	in.progress.end()
	in.account.Count(report.Outcomes)
	unread := errors.Join(in.err, readErr, in.cluster.readError())
	if err := checkRead(report.Lines, f.output.value, unread); err != nil {
		c.reportSkipped(in.account)
		in.cluster.reportUnread(c)
		return err
	}
	var writeErr error
	found := show.ScanOutput{Result: result, All: f.all, Files: in.account.Files}
	if f.hits {
		writeErr = hits.Finish()
	} else {
		if f.cluster.isUsed {
			found.NotSeen = in.cluster.NotSeen
		}
		writeErr = show.WriteAlerts(out, f.output.value, show.Style{Color: c.colors(c.out)}, found)
	}
	if err := errors.Join(writeErr, out.Flush()); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	c.reportSkipped(in.account)
	in.cluster.reportUnread(c)
	if f.output.value == "text" {
		c.summarize(report, len(target.Set.Rules), opt.HitsOnly)
		if len(in.account.Files) > 1 {
			fmt.Fprintln(c.err, in.account.Summary())
		}
	}
	err = c.conclude(report, in.account, f.exitCode)
	if unread != nil {
		if code := new(exitError); errors.As(err, &code) {
			err = nil // the exit code that means alerts would hide that some logs were not read
		}
		err = errors.Join(err, unread)
	}
	if sentence := found.Sentence(); f.output.value != "json" && !f.hits && sentence != "" {
		fmt.Fprintln(c.err, sentence)
	}
	return err
}

// scanOptions returns the options of the scan. With --hits, the scan also writes the hits to hits.
func (f *scanFlags) scanOptions(hits *show.Hits) replay.ScanOptions {
	opt := replay.ScanOptions{Lenient: !f.streams.strict, UntilEOF: f.untilEOF, Now: time.Now()}
	if f.redact {
		hits.Redact = redact.New(nil)
		opt.Redactor = hits.Redact
	}
	if f.hits {
		opt.OnHits = hits.Add
		opt.HitsOnly = f.exitCode == 0
		opt.OnWait = func(replay.Progress) { hits.Flush() }
	}
	return opt
}

func (c *cli) conclude(report replay.Report, account *inputs.Account, onAlert int) error {
	reportIgnored(c.err, report)
	reportUnstated(c.err, report)
	if err := checkInput(c.err, report, account); err != nil {
		return err
	}
	if report.Omitted > 0 {
		return fmt.Errorf("only the first %d of %d alerts are listed; scan parts of the input, or use fewer rules", len(report.Alerts), report.Fired())
	}
	if onAlert != 0 && len(report.Alerts) > 0 {
		return exitCode(onAlert)
	}
	return nil
}

func (c *cli) summarize(r replay.Report, loaded int, hitsOnly bool) {
	if !hitsOnly {
		fmt.Fprintf(c.err, "%s from ", text.Plural(int64(r.Fired()), "alert"))
	}
	fmt.Fprintf(c.err, "%s; %s in %s evaluated with %s\n", text.Plural(int64(r.Hits), "match"),
		text.Plural(int64(r.Lines), "line"), text.Plural(int64(r.Inputs), "input"), text.Plural(int64(loaded), "rule"))
	if r.Dropped > 0 {
		fmt.Fprintf(c.err, "%s could not be evaluated\n", text.Plural(int64(r.Dropped), "line"))
	}
}

func parseLabels(pairs []string) (matcher.Labels, error) {
	labels := matcher.Labels{}
	for _, p := range pairs {
		name, value, ok := strings.Cut(p, "=")
		if !ok || name == "" {
			return nil, usageErrorf("--label %q is not of the form name=value", p)
		}
		labels[name] = strings.Trim(value, `"`)
	}
	return labels, nil
}

// scanFollow prints hits or alerts while log lines are being written, until a signal arrives or all logs have ended.
func (c *cli) scanFollow(ctx context.Context, f scanFlags, args []string, target replay.Target) error {
	labels, err := parseLabels(f.streams.labels)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process immediately. The delay of one second is needed because some programs send the
	// first signal twice.
	defer context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })()
	out := bufio.NewWriterSize(c.out, 64<<10)
	hits := &show.Hits{W: out, Form: f.output.value, WithClearLines: f.asides}
	skipped := 0
	opt := follow.Options{
		Target: target, Inputs: inputs.Options{Labels: labels, PathLabels: kubelet.PathLabels, Stdin: c.in},
		Follow: replay.FollowOptions{Scan: f.scanOptions(hits), Clock: time.Now},
		Flush: func() error {
			hits.Flush()
			return errors.Join(hits.Err(), out.Flush())
		},
		Skip: func(name, problem string) {
			if skipped++; skipped <= maxSkipped {
				fmt.Fprintf(c.err, "skipped %s: it %s\n", name, problem)
			}
		},
	}
	opt.Follow.Scan.OnWait, opt.Follow.Scan.Findings = nil, !f.hits
	if !f.hits {
		opt.Follow.OnAlert = c.alertPrinter(out, f.output.value)
	}
	res, err := follow.Run(ctx, args, opt)
	if err != nil {
		return err
	}
	if f.output.value == "text" {
		err = show.WriteFindings(out, res.Report.Findings, f.all, res.Alerts > 0, show.Style{Color: c.colors(c.out)})
	} else if !f.hits {
		err = show.WriteLines(out, scan.Result{Report: replay.Report{Findings: res.Report.Findings}})
	}
	if err := errors.Join(err, out.Flush()); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	if f.output.value == "text" {
		res.Report.Alerts = make([]replay.Alert, res.Alerts)
		c.summarize(res.Report, len(target.Set.Rules), opt.Follow.Scan.HitsOnly)
	}
	reportIgnored(c.err, res.Report)
	switch r := res.Report; {
	case r.Lines == 0 && res.Ended:
		return errors.New("the input has no text: this does not mean that all is well")
	case r.Lines == 0:
		fmt.Fprintln(c.err, "nothing was read: this does not mean that all is well")
	case len(r.Untimed) > 0:
		fmt.Fprintf(c.err, "no line of %s has a timestamp in a known format; the lines were read as plain text\n", nameAndCount(r.Untimed))
	}
	if f.exitCode != 0 && res.Alerts > 0 {
		return exitCode(f.exitCode)
	}
	return nil
}

// alertPrinter returns a function that prints an alert when it fires, and again when it resolves.
func (c *cli) alertPrinter(out *bufio.Writer, form string) func(episodes.Episode) {
	style, first := show.Style{Color: c.colors(c.out)}, true
	return func(e episodes.Episode) {
		if form == "jsonl" {
			_ = show.AlertLine(out, replay.Alert{Episode: e, FiredAt: e.FiredAt}) // Flush returns the error from writing
			return
		}
		if !first {
			fmt.Fprintln(out)
		}
		first = false
		style.Brief = e.State == episodes.StateResolved
		_ = show.WriteAlert(out, e, style)
	}
}
