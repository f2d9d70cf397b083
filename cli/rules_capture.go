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

	"crowsnest/cli/internal/capture"
	"crowsnest/cli/internal/show"
	"crowsnest/daemon/loader"
	"crowsnest/internal/text"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/rules"
)

type captureFlags struct {
	rules     ruleFlags
	streams   streamFlags
	falsePage bool
	fromLogs  []string
	write     string
	daemon    getFlags
}

func newRulesCapture(c *cli) *cobra.Command {
	var f captureFlags
	cmd := &cobra.Command{
		Use:   "capture [flags] FINGERPRINT|ALERT",
		Short: "Write a test of a rule from an episode that happened",
		Args:  cobra.ExactArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return c.capture(cmd.Context(), f, args[0]) },
	}
	f.rules.add(cmd)
	f.streams.add(cmd, "with --from-logs: ")
	flags := cmd.Flags()
	flags.BoolVar(&f.falsePage, "false-page", false, "the alert should not have fired: the test expects that it does not")
	flags.StringArrayVar(&f.fromLogs, "from-logs", nil, "take the episode from recorded logs instead of a daemon: a file, folder or archive `PATH` (repeatable)")
	flags.StringVar(&f.write, "write", "", "insert the test into this pack, a `FILE`")
	f.daemon.add(cmd)
	return cmd
}

func (c *cli) capture(ctx context.Context, f captureFlags, about string) error {
	if len(f.fromLogs) == 0 && !fingerprintForm.MatchString(about) {
		return usageErrorf("%q is not a fingerprint of 16 hexadecimal digits; crowsnest get episodes lists fingerprints; the name of an alert needs --from-logs with recorded logs", about)
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

// packFiles returns the pack that the command changes or, if there is none, the packs of --rules or the shipped packs.
func (f *captureFlags) packFiles(c *cli) ([]rules.File, error) {
	paths := f.rules.chosenPacks()
	if f.write != "" {
		if len(f.rules.paths) > 0 {
			return nil, usageErrorf("--write and --rules cannot be combined: --write already names the pack of the rule")
		}
		paths = []string{f.write}
	}
	files, problems := c.readRules(paths, loader.Shipped)
	if len(problems) > 0 {
		return nil, problems
	}
	return files, nil
}

// episodeOf returns the episode and its rule. If the rule is unknown, it returns an error.
func (c *cli) episodeOf(ctx context.Context, f captureFlags, set *rules.Set, about string) (capture.Episode, *rules.Rule, error) {
	if len(f.fromLogs) > 0 {
		return c.episodeOfLogs(ctx, f, set, about)
	}
	got, err := capture.Fetch(func(path string) ([]byte, error) { return f.daemon.fetchData(ctx, path, nil) }, about)
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

func (c *cli) episodeOfLogs(ctx context.Context, f captureFlags, set *rules.Set, about string) (ep capture.Episode, r *rules.Rule, err error) {
	target, err := newTarget(set)
	if err != nil {
		return ep, nil, err
	}
	in, err := c.collect(ctx, logInput{args: f.fromLogs, labels: f.streams.labels, times: 2})
	if err != nil {
		return ep, nil, err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	in.progress.end()
	c.reportSkipped(in.account)
	if len(in.logs) == 0 {
		return ep, nil, in.err
	}
	l := capture.Logs{Target: target, Inputs: in.logs, Options: replay.ScanOptions{
		Lenient: !f.streams.strict, Now: time.Now(), Redactor: redact.New(nil),
	}}
	ep, r, err = l.Episode(about)
	return ep, r, errors.Join(in.err, err)
}

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

// replaceFile replaces a file atomically. It follows symbolic links and keeps the permissions of the file.
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

// reportCaptured writes to stderr whether the new test passes. files contain the test.
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
		fmt.Fprintf(c.err, "the new test fails until you change rule %s (%s:%d); to see which conditions of the rule hold, run crowsnest explain with --line and this line:\n  %s\n",
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
