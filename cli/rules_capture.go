package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"crowsnest/cli/internal/api"
	"crowsnest/cli/internal/capture"
	"crowsnest/cli/internal/show"
	"crowsnest/daemon/loader"
	"crowsnest/internal/text"
	"crowsnest/lab/inputs"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/rules"
)

type captureFlags struct {
	rules        ruleFlags
	labels       []string
	strictLabels bool
	falsePage    bool
	fromLogs     []string
	write        string
	daemon       getFlags
}

func newRulesCapture(c *cli) *cobra.Command {
	var f captureFlags
	cmd := &cobra.Command{
		Use:   "capture [flags] FINGERPRINT|ALERT",
		Short: "Write a test of a rule from an episode that happened",
		Long: `Writes an inline test from an episode: the lines with their streams, at their
distances in time, and what the rule did. Secrets are redacted. Lines without
effect are left out of a long episode.

--false-page is for an alert that should not have fired. The test then expects that
it does not, so it fails until the rule is changed. The command names the parts of
the rule that accepted the line, and changes with which every test passes.

With a running daemon, the argument is the fingerprint of an open episode, or of one that
ended in the last 15 minutes. get episodes, alerts and the daemon's pages show it. A
daemon keeps only the lines that opened and ended an episode, and the newest one. For
a rule with a sequence, or one that counts different values, use --from-logs. It
reads the same logs as scan, and the argument may also be the name of an alert.

--write inserts the test into the pack of the rule and changes nothing else in it.
Without it, the test is printed. test rules --mutate then lists the parts of the
rule that no test protects.`,
		Example: `  crowsnest rules capture --url http://crowsnest:9797 0f3a61c2b4d5e6f7
  crowsnest rules capture --false-page --write packs/vcluster.yaml 0f3a61c2b4d5e6f7
  crowsnest rules capture --from-logs must-gather/ --write packs/leases.yaml LeaseLost`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return c.capture(cmd.Context(), f, args[0]) },
	}
	f.rules.add(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&f.labels, "label", nil, "with --from-logs: label of every stream, `name=value` (repeatable)")
	flags.BoolVar(&f.strictLabels, "strict-labels", false, "with --from-logs: an unknown label satisfies no selector")
	flags.BoolVar(&f.falsePage, "false-page", false, "the alert should not have fired: the test expects that it does not")
	flags.StringArrayVar(&f.fromLogs, "from-logs", nil, "take the episode from recorded logs instead of a daemon: a file, folder or archive `PATH` (repeatable)")
	flags.StringVar(&f.write, "write", "", "insert the test into this pack, a `FILE`")
	f.daemon.add(cmd, api.DefaultAddress)
	return cmd
}

func (c *cli) capture(ctx context.Context, f captureFlags, about string) error {
	if len(f.fromLogs) == 0 && !fingerprintForm.MatchString(about) {
		return usageErrorf("%q is not a fingerprint of 16 hexadecimal digits; list them with crowsnest get episodes, or name recorded logs with --from-logs", about)
	}
	files, err := f.packFiles(c)
	if err != nil {
		return err
	}
	overrides, problems := c.readRules(f.rules.overrides, loader.Shipped)
	set, err := buildRules(slices.Concat(files, overrides), problems)
	if err != nil {
		return err
	}
	ep, r, err := c.episodeOf(ctx, f, set, about)
	if r == nil {
		return err
	}
	if err != nil {
		fmt.Fprintf(c.err, "%v\n", err)
	}
	test, err := capture.Make(r, ep, f.falsePage)
	if err != nil {
		return err
	}
	k := slices.IndexFunc(files, func(x rules.File) bool { return x.Name == r.File })
	if k < 0 {
		return fmt.Errorf("the file of rule %s is not known: %s", r.Alert, r.File)
	}
	data, err := rules.InsertTest(files[k], r.Alert, test.YAML())
	if err != nil {
		_, _ = fmt.Fprintln(c.out, strings.Join(test.YAML(), "\n"))
		return err
	}
	if err := c.writeCaptured(f, test, data); err != nil {
		return err
	}
	files[k].Data = data
	return c.reportCaptured(f, files, r, test)
}

// packFiles returns the pack into which the test is written, or else the packs of --rules, or
// else the shipped packs.
func (f *captureFlags) packFiles(c *cli) ([]rules.File, error) {
	paths := f.rules.chosenPacks()
	if f.write != "" {
		if len(f.rules.paths) > 0 {
			return nil, usageErrorf("--write names the pack of the rule; --rules cannot name others")
		}
		paths = []string{f.write}
	}
	files, problems := c.readRules(paths, loader.Shipped)
	if len(problems) > 0 {
		return nil, problems
	}
	return files, nil
}

// episodeOf returns the episode and its rule. The rule is nil if the command must end with the
// error.
func (c *cli) episodeOf(ctx context.Context, f captureFlags, set *rules.Set, about string) (capture.Episode, *rules.Rule, error) {
	if len(f.fromLogs) > 0 {
		return c.episodeOfLogs(f, set, about)
	}
	got, err := capture.Fetch(func(path string) ([]byte, error) { return f.daemon.fetchData(ctx, path) }, about)
	if err != nil {
		return capture.Episode{}, nil, err
	}
	r, err := show.FindRule(set, got.Timeline.Episode.Alert)
	if err != nil {
		return capture.Episode{}, nil, fmt.Errorf("%w; name its pack with --write or --rules", err)
	}
	if got.Rule != "" && strings.TrimSpace(got.Rule) != strings.TrimSpace(r.Source) {
		fmt.Fprintf(c.err, "the daemon runs another version of rule %s than %s\n", r.Alert, r.File)
	}
	return got.Episode(r), r, nil
}

func (c *cli) episodeOfLogs(f captureFlags, set *rules.Set, about string) (ep capture.Episode, r *rules.Rule, err error) {
	labels, err := parseLabels(f.labels)
	if err != nil {
		return ep, nil, err
	}
	target, err := newTarget(set)
	if err != nil {
		return ep, nil, err
	}
	find, remove, err := c.inputs(labels)
	if err != nil {
		return ep, nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	logs, account, findErr := inputs.Collect(f.fromLogs, find)
	c.reportSkipped(account)
	if len(logs) == 0 {
		return ep, nil, findErr
	}
	l := capture.Logs{Target: target, Inputs: logs, Options: replay.ScanOptions{
		Lenient: !f.strictLabels, Now: time.Now(), Redactor: redact.New(nil),
	}}
	ep, r, err = l.Episode(about)
	return ep, r, errors.Join(findErr, err)
}

// writeCaptured writes the changed pack, or the test to standard output.
func (c *cli) writeCaptured(f captureFlags, test capture.Test, data []byte) error {
	if f.write == "" {
		_, err := fmt.Fprintln(c.out, strings.Join(test.YAML(), "\n"))
		return err
	}
	if err := replaceFile(f.write, data); err != nil {
		return fmt.Errorf("write the pack: %w", err)
	}
	fmt.Fprintf(c.err, "test %q is written into %s\n", test.Name, f.write)
	return nil
}

// replaceFile replaces the content of a file atomically. It follows a symbolic link and
// preserves the permissions.
func replaceFile(path string, data []byte) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".crowsnest-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Chmod(info.Mode().Perm()), tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// reportCaptured reports on stderr whether the new test passes. files contain the test.
func (c *cli) reportCaptured(f captureFlags, files []rules.File, old *rules.Rule, test capture.Test) error {
	overrides, problems := c.readRules(f.rules.overrides, loader.Shipped)
	set, err := buildRules(slices.Concat(files, overrides), problems)
	if err != nil {
		return err
	}
	r, err := show.FindRule(set, old.Alert)
	if err != nil {
		return err
	}
	written := r.Tests[len(r.Tests)-1]
	differs, err := replay.RunTest(r, written)
	if err != nil {
		return err
	}
	for _, n := range test.Notes {
		fmt.Fprintf(c.err, "note: %s\n", n)
	}
	switch {
	case f.falsePage && len(differs) > 0:
		fmt.Fprintf(c.err, "the test fails now, as it must until rule %s (%s:%d) is changed; explain --line shows which conditions of the rule hold for\n  %s\n",
			old.Alert, old.File, old.Line, text.Shorten(test.Trigger.Text, 300))
	case f.falsePage:
		fmt.Fprintf(c.err, "the test passes already: rule %s does not fire on these lines\n", r.Alert)
	case len(differs) > 0:
		return fmt.Errorf("the test fails; please report this:\n%s", strings.Join(differs, "\n"))
	default:
		fmt.Fprintln(c.err, "the test passes")
	}
	return nil
}
