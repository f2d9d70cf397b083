package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/prometheus/common/version"
	"github.com/spf13/cobra"

	"crowsnest/daemon/casefile"
	"crowsnest/internal/lazyre"
	"crowsnest/lab/scan"
	"crowsnest/redact"
	"crowsnest/replay"
)

type caseFlags struct {
	rules    ruleFlags
	streams  streamFlags
	untilEOF bool
	alert    string
	cluster  clusterFlags // flags of scan --cluster, for a case about a running cluster
	daemon   getFlags
	output   *oneOf
}

func newCase(c *cli) *cobra.Command {
	f := caseFlags{output: newOneOf("markdown", "html", "json")}
	cmd := &cobra.Command{
		Use: "case [flags] FILE|FOLDER|-|FINGERPRINT...", Short: "Write a file about failures to forward and keep",
		RunE: func(cmd *cobra.Command, args []string) error { return c.makeCase(cmd.Context(), f, args) },
	}
	f.rules.add(cmd)
	f.rules.addNamespaces(cmd)
	f.streams.add(cmd, "")
	flags := cmd.Flags()
	flags.BoolVar(&f.untilEOF, "until-eof", false, "stop the clock at the end of the input")
	flags.StringVar(&f.alert, "alert", "", "limit the file to the alert with this name or fingerprint, `NAME`, and to what was open at the same time")
	flags.VarP(f.output, "output", "o", "output format")
	f.daemon.add(cmd)
	return cmd
}

var fingerprintForm = lazyre.New(`^[0-9a-f]{16}$`)

// isFingerprint reports whether args is the fingerprint of a daemon's episode. If a file has the same name, the
// argument means the file.
func isFingerprint(args []string) bool {
	if len(args) != 1 || !fingerprintForm.MatchString(args[0]) {
		return false
	}
	_, err := os.Lstat(args[0])
	return errors.Is(err, os.ErrNotExist)
}

func (c *cli) makeCase(ctx context.Context, f caseFlags, args []string) error {
	args, err := c.logArgs(args, "case needs a file, a folder, - for standard input, or the fingerprint of an episode of a daemon")
	if err != nil {
		return err
	}
	if !isFingerprint(args) {
		return c.caseOfLogs(ctx, f, args)
	}
	if f.alert != "" {
		return usageErrorf("remove --alert: the fingerprint already selects a failure, and --alert is for recorded logs")
	}
	made, err := casefile.FromAPI(casefile.Daemon{
		Address: f.daemon.url, Fingerprint: args[0], Now: time.Now(), Version: version.Version,
		Get: func(path string) ([]byte, error) { return f.daemon.fetchData(ctx, path, nil) },
	})
	if err != nil {
		return err
	}
	return c.writeCase(f, made)
}

// caseOfLogs writes the case file of recorded logs. If a part of the logs could not be read, the case file says so, and
// caseOfLogs also returns the error.
func (c *cli) caseOfLogs(ctx context.Context, f caseFlags, args []string) (err error) {
	target, err := f.rules.loadTarget(c)
	if err != nil {
		return err
	}
	in, err := c.collect(ctx, logInput{args: args, labels: f.streams.labels, cluster: f.cluster, set: target.Set, times: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	now, hide := time.Now(), redact.New(nil)
	lines := casefile.NewRecorder(hide)
	opt := replay.ScanOptions{Lenient: !f.streams.strict, UntilEOF: f.untilEOF, Now: now, Redactor: hide, OnHits: lines.Add}
	in.cluster.prepareReading(in.logs, &opt)
	report, readErr := scan.Run(target, in.logs, opt)
	in.progress.end()
	inputErr := errors.Join(in.err, readErr, in.cluster.readError())
	in.account.Count(report.Outcomes)
	if err := checkRead(report.Lines, f.output.value, inputErr); err != nil {
		return err
	}
	if err := checkInput(c.err, report.Report, in.account); err != nil {
		return errors.Join(inputErr, err)
	}
	lost := errorTexts(errors.Join(in.err, readErr))
	for _, u := range in.cluster.NotSeen {
		lost = append(lost, "not seen: "+u.String())
	}
	var unread []string
	for _, s := range in.account.Skipped() {
		for _, name := range s.Names {
			unread = append(unread, name+": "+s.Problem)
		}
	}
	made, err := casefile.FromReport(casefile.RecordedScan{
		Names: in.names, Inputs: in.logs, Set: target.Set, Report: report.Report, Unknown: report.Unknown,
		Lines: lines, UnreadFiles: unread, Errors: lost, Now: now, Version: version.Version, SubjectFilter: f.alert,
	})
	if err != nil {
		return errors.Join(inputErr, err)
	}
	return errors.Join(c.writeCase(f, made), inputErr)
}

// errorTexts returns the messages of the errors that err joins.
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
	write := map[string]func(io.Writer) error{"markdown": made.Markdown, "html": made.HTML, "json": made.JSON}[f.output.value]
	if err := errors.Join(write(out), out.Flush()); err != nil {
		return fmt.Errorf("write the case: %w", err)
	}
	return nil
}
