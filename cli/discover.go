package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"crowsnest/cli/internal/show"
	"crowsnest/daemon/loader"
	"crowsnest/internal/text"
	"crowsnest/lab/inputs"
	"crowsnest/redact"
	"crowsnest/rules"
	"crowsnest/unknown/discover"
)

const noRules = "none"

type discoverFlags struct {
	rules    ruleFlags
	streams  streamFlags
	redact   bool
	top      int
	minCount int64
	rulesOut string
	why      bool
	output   *oneOf
}

func newDiscover(c *cli) *cobra.Command {
	f := discoverFlags{output: newOneOf("text", "json")}
	cmd := &cobra.Command{
		Use: "discover [flags] [FILE|FOLDER|-]...", Short: "Find problems in logs that no rule watches",
		RunE: func(cmd *cobra.Command, args []string) error { return c.discover(cmd.Context(), f, args) },
	}
	f.rules.add(cmd)
	f.streams.add(cmd, "")
	flags := cmd.Flags()
	flags.Lookup("rules").Usage = rulesUsage + "; none alone: no rules"
	flags.BoolVar(&f.redact, "redact", true, "redact secrets in the output")
	flags.Var(numberVar(&f.top, 20, 0, 10_000), "top", "maximum number of entries; 0: all")
	flags.Var(numberVar(&f.minCount, 1, 1, 1_000_000_000), "min-count", "omit entries with fewer lines")
	flags.StringVar(&f.rulesOut, "rules-out", "", "write a pack with a rule per entry to `FILE`; -: to standard output, instead of the list")
	flags.BoolVar(&f.why, "why", false, "show how each entry was scored")
	flags.VarP(f.output, "output", "o", "output format")
	return cmd
}

func (c *cli) discover(ctx context.Context, f discoverFlags, args []string) (err error) {
	args, err = c.logArgs(args, "discover needs a file, a folder, or - for standard input")
	if err != nil {
		return err
	}
	var set *rules.Set
	if !slices.Equal(f.rules.paths, []string{noRules}) || len(f.rules.overrides) > 0 {
		if set, err = f.rules.load(c); err != nil {
			return err
		}
	}
	opt := discover.Options{Lenient: !f.streams.strict, Now: time.Now()}
	if f.redact {
		opt.Redactor = redact.New(nil)
	}
	finder, err := discover.New(set, opt)
	if err != nil {
		return err
	}
	c.outlivesInterrupt = slices.Contains(args, inputs.Stdin)
	in, err := c.collect(ctx, logInput{args: args, labels: f.streams.labels, times: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	errs := []error{in.err}
	for _, log := range in.logs {
		errs = append(errs, finder.Read(discover.Input{Name: log.Name, Labels: log.StreamLabels(), Open: log.Open}))
	}
	in.progress.end()
	c.reportSkipped(in.account)
	readErr := errors.Join(errs...)
	report := finder.Report(f.minCount, f.top)
	if err := checkRead(report.Lines, f.output.value, readErr); err != nil {
		return err
	}
	return errors.Join(readErr, c.printDiscovered(f, report))
}

func (c *cli) printDiscovered(f discoverFlags, r discover.Report) error {
	out := bufio.NewWriter(c.out)
	var err error
	switch {
	case f.rulesOut == inputs.Stdin:
	case f.output.value == "json":
		err = show.JSON(out, r, true)
	default:
		err = show.WritePatterns(out, r, f.why)
	}
	if err = errors.Join(err, out.Flush()); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	if r.Lines > 0 {
		fmt.Fprintf(c.err, "%d of %s; %d of %s in %s report problems that no rule watches; rules watch %s\n",
			len(r.Patterns), text.Plural(int64(r.All), "pattern"), r.Complaints, text.Plural(int64(r.Lines), "line"),
			text.Plural(int64(r.Inputs), "input"), text.Plural(int64(r.Covered), "line"))
	}
	if r.Evicted > 0 {
		fmt.Fprintf(c.err, "there are too many patterns: %d patterns with %s are not listed\n", r.Evicted, text.Plural(r.EvictedLines, "line"))
	}
	if r.Dropped > 0 {
		fmt.Fprintf(c.err, "%s could not be evaluated\n", text.Plural(r.Dropped, "line"))
	}
	if f.rulesOut == "" || r.Lines == 0 {
		return nil
	}
	return c.writeDiscovered(f.rulesOut, r)
}

const maxRules = 24

// ruleSkeletons returns a generated rule for each wording of a pattern. missing is the number of wordings without a
// usable rule.
func ruleSkeletons(p discover.Pattern) (out []discover.RuleSkeleton, missing int) {
	all := append([]discover.Pattern{p}, p.Variants...)
	for _, v := range all[:min(len(all), maxRules)] {
		if s, ok := bestSkeleton(v); ok {
			out = append(out, s)
		}
	}
	return out, len(all) - len(out)
}

// bestSkeleton returns the most specific generated rule for a pattern that passes its own tests. It returns false if
// there is none.
func bestSkeleton(p discover.Pattern) (discover.RuleSkeleton, bool) {
	s := discover.RuleSkeleton{Severity: discover.SeverityOf(p.Level), Labels: p.Labels, Component: discover.ComponentOf(p.Labels)}
	s.Label, s.Value = discover.SelectorOf(p.Labels)
	s.Comments = []string{fmt.Sprintf("%s in %s, first %s:%d", text.Plural(p.Count, "line"), text.Plural(int64(p.Streams), "stream"), redact.Sanitise(p.Input), p.LineNumber)}
	s, err := discover.FirstPassing(discover.ProposeFor(p), s, tryNew)
	return s, err == nil
}

func (c *cli) writeDiscovered(path string, r discover.Report) error {
	var all []discover.RuleSkeleton
	without := 0
	for _, p := range r.Patterns {
		s, missing := ruleSkeletons(p)
		all = append(all, s...)
		without += missing
	}
	all = discover.Distinct(all)
	for n := len(all); n > 0 && len(discover.Skeleton("discovered", all)) > rules.MaxFileBytes*9/10; n = len(all) {
		all = all[:n*9/10]
	}
	taken := map[string]bool{}
	for i := range all {
		all[i].Alert = discover.AlertName(all[i].Component, &all[i].Proposal, taken)
	}
	if len(all) == 0 {
		return errors.New("no rule can be written: no pattern has a constant text of at least 8 letters")
	}
	pack := discover.Skeleton("discovered", all)
	if err := loader.TryPack(cmp.Or(path, "new.yaml"), []byte(pack)); err != nil {
		return fmt.Errorf("the generated rules fail their tests; please report this: %w", err)
	}
	fmt.Fprintf(c.err, "%s for %s\n", text.Plural(int64(len(all)), "rule"), text.Plural(int64(len(r.Patterns)), "pattern"))
	if without > 0 {
		fmt.Fprintf(c.err, "no rule for %s: no constant text to match, or too many variants\n", text.Plural(int64(without), "wording"))
	}
	if path == inputs.Stdin {
		_, err := io.WriteString(c.out, pack)
		return err
	}
	if err := os.WriteFile(path, []byte(pack), 0o600); err != nil {
		return fmt.Errorf("write --rules-out: %w", err)
	}
	return nil
}
