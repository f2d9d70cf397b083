package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/common/version"
	"github.com/spf13/cobra"

	"crowsnest/casefile"
	"crowsnest/cli/internal/api"
	"crowsnest/internal/lazyre"
	"crowsnest/lab/inputs"
	"crowsnest/lab/scan"
	"crowsnest/redact"
	"crowsnest/replay"
)

type caseFlags struct {
	rules        ruleFlags
	labels       []string
	strictLabels bool
	untilEOF     bool
	alert        string
	cluster      clusterFlags // the flags of scan --cluster
	daemon       getFlags
	output       *oneOf
}

func newCase(c *cli) *cobra.Command {
	f := caseFlags{output: newOneOf("markdown", "html", "json")}
	cmd := &cobra.Command{
		Use:   "case [flags] FILE|FOLDER|-|FINGERPRINT...",
		Short: "Write a file about failures to forward and keep",
		Long: `Writes one file about failures: what failed, where and since when, what else was
open there, the lines of all sources in order of time, running versions compared
with affected ones, what to do, and what could not be seen. Secrets are redacted.

It reads the same recorded logs as scan: files, folders, archives and support
bundles. --alert limits the file to one alert, by name or fingerprint, and to what
was open at the same time.

For a running daemon, the argument is the fingerprint of an episode that is open or
remembered, with or without external labels. get episodes, get history, alerts and
the daemon's pages show fingerprints. The daemon keeps the lines of an episode until
15 minutes after its end.

The HTML is one page without scripts that loads nothing else. The schema of the JSON
is docs/case.schema.json.`,
		Example: `  crowsnest case -o html supportbundle_2026-11-20.zip > case.html
  crowsnest case --alert LeaderElectionLost must-gather/
  crowsnest case -o html --url http://crowsnest:9797 0f3a61c2b4d5e6f7 > case.html`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.makeCase(cmd.Context(), f, args) },
	}
	f.rules.add(cmd)
	f.rules.addNamespaces(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&f.labels, "label", nil, "label of every stream, `name=value` (repeatable)")
	flags.BoolVar(&f.strictLabels, "strict-labels", false, "an unknown label satisfies no selector")
	flags.BoolVar(&f.untilEOF, "until-eof", false, "stop the clock at the end of the input")
	flags.StringVar(&f.alert, "alert", "", "limit the file to the alert with this name or fingerprint, `NAME`, and to what was open at the same time")
	flags.VarP(f.output, "output", "o", "output format")
	f.daemon.add(cmd, api.DefaultAddress)
	return cmd
}

var fingerprintForm = lazyre.New(`^[0-9a-f]{16}$`)

// isFingerprint reports whether args is the fingerprint of an episode of a daemon. An argument
// that is also the name of a file means the file.
func isFingerprint(args []string) bool {
	if len(args) != 1 || !fingerprintForm.MatchString(args[0]) {
		return false
	}
	_, err := os.Lstat(args[0])
	return errors.Is(err, os.ErrNotExist)
}

func (c *cli) makeCase(ctx context.Context, f caseFlags, args []string) error {
	if len(args) == 0 {
		if isTerminal(c.in) {
			return usageErrorf("case needs a file, a folder, - for standard input, or the fingerprint of an episode of a daemon")
		}
		args = []string{inputs.Stdin}
	}
	if !isFingerprint(args) {
		return c.caseOfLogs(ctx, f, args)
	}
	if f.alert != "" {
		return usageErrorf("--alert selects among the failures of recorded logs; with a fingerprint, the failure is already chosen")
	}
	made, err := casefile.FromAPI(casefile.Daemon{
		Address: f.daemon.url, Fingerprint: args[0], Now: time.Now(), Version: version.Version,
		Get: func(path string) ([]byte, error) { return f.daemon.fetchData(ctx, path) },
	})
	if err != nil {
		return err
	}
	return c.writeCase(f, made)
}

// caseOfLogs writes the case of recorded logs. If part of the logs could not be read, the case
// says so, and caseOfLogs returns the error.
func (c *cli) caseOfLogs(ctx context.Context, f caseFlags, args []string) (err error) {
	labels, err := parseLabels(f.labels)
	if err != nil {
		return err
	}
	set, err := f.rules.load(c)
	if err != nil {
		return err
	}
	target, err := newTarget(set)
	if err != nil {
		return err
	}
	find, remove, err := c.inputs(labels)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	cluster, err := c.fromCluster(ctx, f.cluster, set, &find)
	if err != nil {
		return err
	}
	progress := c.startProgress("reading", nil)
	defer progress.end()
	logs, account, findErr := inputs.Collect(cluster.inputArgs(args), find)
	progress.countReading(logs, 1)
	now, hide := time.Now(), redact.New(nil)
	lines := casefile.NewRecorder(hide)
	opt := replay.ScanOptions{Lenient: !f.strictLabels, UntilEOF: f.untilEOF, Now: now, Redactor: hide, OnHits: lines.Add}
	cluster.prepareReading(logs, &opt)
	report, readErr := scan.Run(target, logs, opt)
	progress.end()
	inputErr := errors.Join(findErr, readErr, cluster.readError())
	account.Count(report.Outcomes)
	if err := checkRead(report.Lines, f.output.value, inputErr); err != nil {
		return err
	}
	if err := checkInput(c.err, report.Report, account); err != nil {
		return errors.Join(inputErr, err)
	}
	lost := errorTexts(errors.Join(findErr, readErr))
	for _, u := range cluster.notSeen() {
		lost = append(lost, "not seen: "+u.String())
	}
	made, err := casefile.FromReport(casefile.Recorded{
		Names: cluster.describeArgs(args), Inputs: logs, Set: set, Report: report.Report, Unknown: report.Unknown, Lines: lines, Unread: unreadTexts(account), Errors: lost,
		Now: now, Version: version.Version, About: f.alert,
	})
	if err != nil {
		return errors.Join(inputErr, err)
	}
	return errors.Join(c.writeCase(f, made), inputErr)
}

func unreadTexts(account *inputs.Account) (out []string) {
	for _, s := range account.Skipped() {
		for _, name := range s.Names {
			out = append(out, name+": "+s.Problem)
		}
	}
	return out
}

// errorTexts returns the message of each error that err joins.
func errorTexts(err error) (out []string) {
	if all, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // errors.As would find a joined error inside another one
		for _, one := range all.Unwrap() {
			out = append(out, errorTexts(one)...)
		}
		return out
	}
	if err != nil {
		out = append(out, err.Error())
	}
	return out
}

func (c *cli) writeCase(f caseFlags, made *casefile.Case) error {
	out := bufio.NewWriterSize(c.out, 64<<10)
	write := map[string]func() error{
		"markdown": func() error { return made.Markdown(out) },
		"html":     func() error { return made.HTML(out) },
		"json":     func() error { return made.JSON(out) },
	}[f.output.value]
	if err := errors.Join(write(), out.Flush()); err != nil {
		return fmt.Errorf("write the case: %w", err)
	}
	return nil
}
