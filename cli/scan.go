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
	rules        ruleFlags
	labels       []string
	hits         bool
	all          bool
	asides       bool
	follow       bool
	untilEOF     bool
	strictLabels bool
	redact       bool
	exitCode     int
	cluster      clusterFlags
	output       *oneOf
}

func newScan(c *cli) *cobra.Command {
	f := scanFlags{output: newOneOf("text", "json", "jsonl", "html")}
	cmd := &cobra.Command{
		Use:   "scan [flags] [FILE|FOLDER|-]...",
		Short: "Find known failures in files, folders, archives or standard input",
		Long: `Reads recorded logs with the daemon's matcher and engine, in event time, and
prints the alerts that the daemon would have raised. With --hits it prints every
line that matches a rule instead.

Lines may be CRI, docker-json, klog, JSON, logfmt or plain text. scan takes
namespace, pod and container from the path of a log in these layouts: kubelet,
/var/log/containers, must-gather, support bundles, kubectl cluster-info dump,
kind export logs and the tests of Cluster API. A label that is unknown, such as
the namespace of a pasted file, satisfies every selector; --strict-labels turns
that off.

Text that a tool has added around the lines is removed, and the pods and times that
it states are used: kubectl --prefix and --timestamps, stern, syslog, journalctl,
records of shippers, and exports of Loki, Elasticsearch, clouds and others in JSON,
CSV, tables, YAML or XML (also in a list, or with the newest line first). Quotes, line
numbers, line breaks of a terminal, colours, and escapes of the whole text are removed
too. A line without a time gets the time of the line before it.

Archives are unpacked into a temporary folder (TMPDIR): tar, zip, gzip, xz, zstd
and bzip2, also nested ones. Kubernetes Events and objects in YAML and JSON, and
files of the systemd journal, become the lines that the sources events, objects and
journal write. Pods among the objects state which versions run. Input that cannot be
read, or that does not look like a log, is an error. If nothing is found, it is also an
error if fewer than nine of ten lines are understood.

After the end of the input, the clock runs on until every deadline has passed, such
as "no recovery for two minutes"; --until-eof stops it at the end. The end itself does
not count as silence: a rule with "silent" fires only for silence within the input.

--follow prints what it finds as lines are written: hits at once, alerts when they
are certain and when they end. It follows files over their rotation, new logs in
folders, and pipes until their end. First it reads the existing lines, whose times
drive the clock. After that the clock of this machine is used, so "no recovery for two
minutes" is certain two minutes and some seconds later. At Ctrl-C it prints a summary
and lists the failures that are not certain by then. Archives, journals and objects
cannot be followed.

After the alerts it lists failures that a rule describes but that are not certain,
because the log is too short or lacks lines: the rule, what is missing, the line, and
what to do. It lists ten rules, or all with --all. Then it lists at most five problems
that no rule describes, if they are new or persist, or if the log is too short to judge
them. These lists do not change the exit code. With -o jsonl each line has a "kind":
alert, finding or unknown.

` + clusterText + `

-o html writes the page that crowsnest case writes.`,
		Example: `  kubectl logs -n capi-system deploy/capi-controller-manager | crowsnest scan
  crowsnest scan /var/log/pods
  crowsnest scan supportbundle_2026-11-20.zip
  crowsnest scan --hits -o jsonl --rules packs/ must-gather/
  kubectl logs -f -n capi-system deploy/capi-controller-manager | crowsnest scan -f
  crowsnest scan -f --hits /var/log/pods
  crowsnest scan --cluster --context prod-1
  crowsnest scan --cluster -n team-maple --since 6h -o html > case.html`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.scan(cmd.Context(), f, args) },
	}
	f.rules.add(cmd)
	f.rules.addNamespaces(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&f.labels, "label", nil, "label of every stream, `name=value` (repeatable)")
	flags.BoolVar(&f.hits, "hits", false, "print every line that matches a rule, instead of alerts")
	flags.BoolVar(&f.all, "all", false, fmt.Sprintf("list every failure that is not certain, not only %d", show.MaxFindings))
	flags.BoolVar(&f.asides, "asides", false, "with --hits: also print lines that match only clear or unless")
	flags.BoolVarP(&f.follow, "follow", "f", false, "continue with the lines that are written from now on, until Ctrl-C")
	flags.BoolVar(&f.untilEOF, "until-eof", false, "stop the clock at the end of the input")
	flags.BoolVar(&f.strictLabels, "strict-labels", false, "an unknown label satisfies no selector")
	flags.BoolVar(&f.redact, "redact", true, "redact secrets in the output")
	flags.Var(numberVar(&f.exitCode, 0, 0, 255), "exit-code", "exit with this code if an alert fired")
	flags.VarP(f.output, "output", "o", "output format")
	f.cluster.add(cmd)
	return cmd
}

func (c *cli) scan(ctx context.Context, f scanFlags, args []string) error {
	labels, err := parseLabels(f.labels)
	if err != nil {
		return err
	}
	if err := f.cluster.checkArgs(args, f.follow); err != nil {
		return err
	}
	if len(args) == 0 && !f.cluster.on {
		if isTerminal(c.in) {
			return usageErrorf("scan needs a file, a folder, - for standard input, or --cluster")
		}
		args = []string{inputs.Stdin}
	}
	if f.follow && f.output.value == "json" {
		return usageErrorf("-o json prints one document at the end: with --follow use -o jsonl")
	}
	if f.output.value == "html" {
		return c.scanPage(ctx, f, args)
	}
	set, err := f.rules.load(c)
	if err != nil {
		return err
	}
	target, err := newTarget(set)
	if err != nil {
		return err
	}
	if f.follow {
		return c.scanFollow(ctx, f, args, labels, target)
	}
	return c.scanRecorded(ctx, f, args, labels, target)
}

// scanPage writes a case file instead of the list of failures.
func (c *cli) scanPage(ctx context.Context, f scanFlags, args []string) error {
	if f.follow || f.hits || !f.redact || f.exitCode != 0 {
		return usageErrorf("-o html takes neither --follow, --hits, --exit-code nor --redact=false")
	}
	return c.caseOfLogs(ctx, caseFlags{
		rules: f.rules, labels: f.labels, strictLabels: f.strictLabels, untilEOF: f.untilEOF, cluster: f.cluster, output: f.output,
	}, args)
}

// scanRecorded prints the failures in recorded logs.
func (c *cli) scanRecorded(ctx context.Context, f scanFlags, args []string, labels matcher.Labels, target replay.Target) (err error) {
	find, remove, err := c.inputs(labels)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	cluster, err := c.fromCluster(ctx, f.cluster, target.Set, &find)
	if err != nil {
		return err
	}
	c.liveOutput = f.hits && isTerminal(c.out)
	progress := c.startProgress("reading", nil)
	defer progress.end()
	logs, account, findErr := inputs.Collect(cluster.inputArgs(args), find)
	progress.countReading(logs, 1)
	out := bufio.NewWriterSize(c.out, 64<<10)
	hits := &show.Hits{W: out, Form: f.output.value, Asides: f.asides}
	opt := f.scanOptions(hits)
	cluster.prepareReading(logs, &opt)
	var result scan.Result
	var readErr error
	if f.hits {
		result.Report, readErr = replay.Scan(target.Set, target.Program, logs, opt)
	} else {
		result, readErr = scan.Run(target, logs, opt)
	}
	report := result.Report
	progress.end()
	account.Count(report.Outcomes)
	if err := checkRead(report.Lines, f.output.value, errors.Join(findErr, readErr, cluster.readError())); err != nil {
		c.reportSkipped(account)
		cluster.reportUnread(c)
		return err
	}
	var writeErr error
	found := show.Found{Result: result, All: f.all, Files: account.Files}
	if f.hits {
		writeErr = hits.Finish()
	} else {
		if cluster != nil {
			found.NotSeen = cluster.NotSeen
		}
		writeErr = show.WriteAlerts(out, f.output.value, show.Style{Color: c.colors(c.out)}, found)
	}
	if err := errors.Join(writeErr, out.Flush()); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	c.reportSkipped(account)
	cluster.reportUnread(c)
	if f.output.value == "text" {
		c.summarize(report, len(target.Set.Rules), opt.HitsOnly)
		if len(account.Files) > 1 {
			fmt.Fprintln(c.err, account.Summary())
		}
	}
	err = c.conclude(report, account, f.exitCode)
	if unread := errors.Join(findErr, readErr, cluster.readError()); unread != nil {
		if code := new(exitError); errors.As(err, &code) {
			err = nil // the exit code for alerts would hide that some logs were not read
		}
		err = errors.Join(err, unread)
	}
	if sentence := found.Sentence(); f.output.value != "json" && !f.hits && sentence != "" {
		fmt.Fprintln(c.err, sentence)
	}
	return err
}

// scanOptions returns the options of the scan. With --hits, the scan writes hits to hits.
func (f *scanFlags) scanOptions(hits *show.Hits) replay.ScanOptions {
	opt := replay.ScanOptions{Lenient: !f.strictLabels, UntilEOF: f.untilEOF, Now: time.Now()}
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

// conclude reports problems of the input and returns the result of the command.
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

// summarize reports on stderr how much of the input was read.
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

// scanFollow prints hits or alerts while lines are written. It ends at a signal, or at the end
// of all inputs.
func (c *cli) scanFollow(ctx context.Context, f scanFlags, args []string, labels matcher.Labels, target replay.Target) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// A later signal ends the process at once. The delay is needed because some programs send
	// the first signal twice.
	defer context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })()
	out := bufio.NewWriterSize(c.out, 64<<10)
	hits := &show.Hits{W: out, Form: f.output.value, Asides: f.asides}
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
		return errors.New("the input has no text: this is no all-clear")
	case r.Lines == 0:
		fmt.Fprintln(c.err, "nothing was read: this is no all-clear")
	case len(r.Untimed) > 0:
		fmt.Fprintf(c.err, "no line of %s has a timestamp in a known format; the lines were read as plain text\n", nameAndCount(r.Untimed))
	}
	if f.exitCode != 0 && res.Alerts > 0 {
		return exitCode(f.exitCode)
	}
	return nil
}

// alertPrinter returns a function that prints an alert when it fires and when it resolves.
func (c *cli) alertPrinter(out *bufio.Writer, form string) func(episodes.Episode) {
	style, first := show.Style{Color: c.colors(c.out)}, true
	return func(e episodes.Episode) {
		if form == "jsonl" {
			_ = show.AlertLine(out, replay.Alert{Episode: e, Fired: e.FiredAt}) // Flush returns the error of the write
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
