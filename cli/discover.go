package cli

import (
	"bufio"
	"cmp"
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
	rules        ruleFlags
	labels       []string
	strictLabels bool
	redact       bool
	top          int
	minCount     int64
	rulesOut     string
	output       *oneOf
}

func newDiscover(c *cli) *cobra.Command {
	f := discoverFlags{output: newOneOf("text", "json")}
	cmd := &cobra.Command{
		Use:   "discover [flags] [FILE|FOLDER|-]...",
		Short: "Find problems in logs that no rule watches",
		Long: `Reads recorded logs as scan does, and omits every line that matches a rule,
including clear and unless lines. It keeps lines that report a problem: by their
level, or at any level by words such as failed, refused or panic. It turns their
messages into patterns, with placeholders for numbers, names, addresses and the
like. Patterns with the same cause form one entry: those that end in the same
error, and those of one component that fails to reach something in several steps.
Repeated waiting is also a problem: the same message about the same object for 10
minutes, or ten times if the lines have no timestamps.

Entries are ordered by score; -o json and --why show it. The level (fatal 5,
error 3, warning 2.5, info or none 2.25; Warning events count as warnings) and the
most severe word weigh more than the number of lines: ten times as many lines add
0.6, up to a thousand lines. Each cause that a message states ("what: why: why")
adds 0.2, up to five causes. Problems that usually end by themselves, such as
conflicts, score less. An entry scores more if its component had already written for
ten minutes, and 200 lines, before the entry began; the first such entry scores most.
If lines have no times, only the 200 lines are required. An entry that is always
there scores less, and its number of lines does not count. Each further entry of a
component scores less, and even less if it is from the same controller or source
file, so that one noisy component does not hide the others.

--rules-out writes a pack with a rule and tests for each wording of each entry shown.
The pack passes check and test unchanged. --rules none omits no lines.`,
		Example: `  crowsnest discover /var/log/pods
  kubectl logs -n capi-system deploy/capi-controller-manager | crowsnest discover
  kubectl logs -f -n capi-system deploy/capi-controller-manager | crowsnest discover   # ends with Ctrl-C
  crowsnest discover --top 5 --rules packs/ --rules-out new.yaml must-gather/`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.discover(f, cmd, args) },
	}
	f.rules.add(cmd)
	flags := cmd.Flags()
	flags.Lookup("rules").Usage = rulesUsage + "; none alone: no rules"
	flags.StringArrayVar(&f.labels, "label", nil, "label of every stream, `name=value` (repeatable)")
	flags.BoolVar(&f.strictLabels, "strict-labels", false, "an unknown label satisfies no selector")
	flags.BoolVar(&f.redact, "redact", true, "redact secrets in the output")
	flags.Var(numberVar(&f.top, 20, 0, 10_000), "top", "maximum number of entries; 0: all")
	flags.Var(numberVar(&f.minCount, 1, 1, 1_000_000_000), "min-count", "omit entries with fewer lines")
	flags.StringVar(&f.rulesOut, "rules-out", "", "write a pack with a rule per entry to `FILE`; -: to standard output, instead of the list")
	flags.Bool("why", false, "show how each entry was scored")
	flags.VarP(f.output, "output", "o", "output format")
	return cmd
}

func (c *cli) discover(f discoverFlags, cmd *cobra.Command, args []string) (err error) {
	if len(args) == 0 {
		if isTerminal(c.in) {
			return usageErrorf("discover needs a file, a folder, or - for standard input")
		}
		args = []string{inputs.Stdin}
	}
	labels, err := parseLabels(f.labels)
	if err != nil {
		return err
	}
	set, err := f.loadRules(c)
	if err != nil {
		return err
	}
	opt := discover.Options{Lenient: !f.strictLabels, Now: time.Now()}
	if f.redact {
		opt.Redactor = redact.New(nil)
	}
	finder, err := discover.New(set, opt)
	if err != nil {
		return err
	}
	c.outlivesInterrupt = slices.Contains(args, inputs.Stdin)
	find, remove, err := c.inputs(labels)
	if err != nil {
		return err
	}
	defer remove() //nolint:errcheck // the operating system cleans its temporary folder
	readErr := c.discoverIn(finder, args, find)
	report := finder.Report(f.minCount, f.top)
	if err := checkRead(report.Lines, f.output.value, readErr); err != nil {
		return err
	}
	why, _ := cmd.Flags().GetBool("why")
	return errors.Join(readErr, c.printDiscovered(f, report, why))
}

func (f *discoverFlags) loadRules(c *cli) (*rules.Set, error) {
	if len(f.rules.paths) == 1 && f.rules.paths[0] == noRules && len(f.rules.overrides) == 0 {
		return nil, nil
	}
	return f.rules.load(c)
}

// discoverIn reads all inputs. The error names the inputs that could not be read.
func (c *cli) discoverIn(finder *discover.Finder, args []string, find inputs.Options) error {
	progress := c.startProgress("reading", nil)
	defer progress.end()
	logs, account, findErr := inputs.Collect(args, find)
	errs := []error{findErr}
	progress.countReading(logs, 1)
	for _, in := range logs {
		errs = append(errs, finder.Read(discover.Input{Name: in.Name, Labels: in.StreamLabels(), Open: in.Open}))
	}
	progress.end()
	c.reportSkipped(account)
	return errors.Join(errs...)
}

// printDiscovered writes the patterns or the pack, and a summary to stderr.
func (c *cli) printDiscovered(f discoverFlags, r discover.Report, why bool) error {
	out := bufio.NewWriter(c.out)
	var err error
	switch {
	case f.rulesOut == inputs.Stdin:
	case f.output.value == "json":
		err = show.JSON(out, r, true)
	default:
		err = show.WritePatterns(out, r, why)
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
		fmt.Fprintf(c.err, "too many patterns: %d with %s were dropped\n", r.Evicted, text.Plural(r.EvictedLines, "line"))
	}
	if r.Dropped > 0 {
		fmt.Fprintf(c.err, "%s could not be evaluated\n", text.Plural(r.Dropped, "line"))
	}
	if f.rulesOut == "" || r.Lines == 0 {
		return nil
	}
	return c.writeDiscovered(f.rulesOut, r)
}

// maxRules is the maximum number of rules for one pattern and its variants.
const maxRules = 24

// ruleSkeletons returns a rule for each wording of a pattern. missing is the number of wordings
// for which no rule can be made.
func ruleSkeletons(p discover.Pattern) (out []discover.RuleSkeleton, missing int) {
	all := append([]discover.Pattern{p}, p.Variants...)
	for _, v := range all[:min(len(all), maxRules)] {
		if s, ok := bestSkeleton(v); ok {
			out = append(out, s)
		}
	}
	return out, len(all) - len(out)
}

// bestSkeleton returns the most specific rule for a pattern whose tests pass.
func bestSkeleton(p discover.Pattern) (discover.RuleSkeleton, bool) {
	s := discover.RuleSkeleton{Severity: discover.SeverityOf(p.Level), Labels: p.Labels, Component: discover.ComponentOf(p.Labels)}
	s.Label, s.Value = discover.SelectorOf(p.Labels)
	s.Comments = []string{fmt.Sprintf("%s in %s, first %s:%d", text.Plural(p.Count, "line"), text.Plural(int64(p.Streams), "stream"), redact.Sanitise(p.Input), p.LineNumber)}
	s, err := discover.Fitting(discover.ProposeFor(p), s, tryNew)
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
