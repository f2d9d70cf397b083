package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"crowsnest/cli/internal/show"
	"crowsnest/daemon/loader"
	"crowsnest/discover"
	"crowsnest/internal/text"
	"crowsnest/lab/inputs"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
	"crowsnest/sources/loki"
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
	loki         lokiFlags
}

func newDiscover(c *cli) *cobra.Command {
	f := discoverFlags{output: newOneOf("text", "json")}
	cmd := &cobra.Command{
		Use:   "discover [flags] [FILE|FOLDER|-]... | --loki URL --query SELECTOR",
		Short: "Find problems in logs that no rule watches",
		Long: `Reads recorded logs as scan does, and omits every line that matches a rule,
including clear and unless lines. It keeps lines that report a problem: by their
level, or at any level by words such as failed, refused or panic. It turns their
messages into patterns, with placeholders for numbers, names, addresses and the
like. Patterns with the same cause form one entry: those that end in the same
error, and those of one component that fails to reach something in several steps.
Repeated waiting is a problem too: the same message about the same object for 10
minutes, or ten times if the lines have no timestamps.

Entries are ordered by score; -o json and --why show it. The level (fatal 5,
error 3, warning 2.5, info or none 2.25; Warning events count as warnings) and the
most severe word weigh more than the number of lines: ten times as many lines add
0.6, up to a thousand lines. Each cause that a message states ("what: why: why")
adds 0.2, up to five causes. Messages that usually pass by themselves, such as
conflicts, score less. What begins after its component wrote for ten minutes, and
200 lines, without it scores more, the first of these most. What is always there
scores less, and its number of lines does not count. Without times, the lines of
the component decide alone. Each further entry of a component scores less, most of
all from the same controller or source file, so that one noisy component does not
hide the others.

--rules-out writes a pack with a rule and tests for each entry shown. One rule
matches all wordings of an entry and has a test for each. The pack passes check
and test unchanged. A wording from another container, or one that would also match
other entries, gets its own rule. --rules none omits no lines.`,
		Example: `  crowsnest discover /var/log/pods
  kubectl logs -n capi-system deploy/capi-controller-manager | crowsnest discover
  kubectl logs -f -n capi-system deploy/capi-controller-manager | crowsnest discover   # ends with Ctrl-C
  crowsnest discover --top 5 --rules packs/ --rules-out new.yaml must-gather/
  crowsnest discover --loki http://loki:3100 --query '{namespace="capi-system"}' --since 6h`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.discover(cmd.Context(), f, cmd, args) },
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
	f.loki.add(cmd)
	return cmd
}

func (c *cli) discover(ctx context.Context, f discoverFlags, cmd *cobra.Command, args []string) error {
	if len(args) == 0 && f.loki.url == "" {
		if isTerminal(c.in) {
			return usageErrorf("discover needs a file, a folder, - for standard input, or --loki")
		}
		args = []string{inputs.Stdin}
	}
	if err := f.loki.check(args); err != nil {
		return err
	}
	set, err := f.load(c)
	if err != nil {
		return err
	}
	opt := discover.Options{Lenient: !f.strictLabels && f.loki.url == "", Now: time.Now()}
	if f.redact {
		opt.Redactor = redact.New(nil)
	}
	finder, err := discover.New(set, opt)
	if err != nil {
		return err
	}
	in := &discovery{flags: f, opt: opt}
	defer func() { in.remove() }()
	readErr := c.discoverIn(ctx, in, finder, args)
	report := finder.Report(f.minCount, f.top)
	if err := checkRead(report.Lines, f.output.value, readErr); err != nil {
		return err
	}
	why, _ := cmd.Flags().GetBool("why")
	if err := c.printDiscovered(in, report, why); err != nil {
		return errors.Join(readErr, err)
	}
	return readErr
}

// discovery is one run of discover.
type discovery struct {
	flags   discoverFlags
	opt     discover.Options
	cleanup []func() error
}

// remove removes the temporary files of the inputs.
func (d *discovery) remove() {
	for _, f := range d.cleanup {
		_ = f() // the system cleans its temporary directory
	}
}

func (f *discoverFlags) load(c *cli) (*rules.Set, error) {
	if len(f.rules.paths) == 1 && f.rules.paths[0] == noRules && len(f.rules.overrides) == 0 {
		return nil, nil
	}
	return f.rules.load(c)
}

// discoverIn reads all inputs. The error names those that could not be read.
func (c *cli) discoverIn(ctx context.Context, of *discovery, finder *discover.Finder, args []string) error {
	f := of.flags
	if f.loki.url != "" {
		return c.discoverLoki(ctx, f, finder)
	}
	labels, err := parseLabels(f.labels)
	if err != nil {
		return err
	}
	if slices.Contains(args, inputs.Stdin) {
		// Ctrl-C reaches every process of a pipe. The first one only ends the writer,
		// so that its output is still reported; a second one ends this process.
		ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT)
		defer stop()
		defer context.AfterFunc(ctx, stop)()
	}
	find, remove, err := c.inputs(labels)
	if err != nil {
		return err
	}
	of.cleanup = append(of.cleanup, remove)
	progress := c.startProgress("reading", nil)
	defer progress.end()
	logs, account, findErr := inputs.Collect(args, find)
	progress.expect(logs)
	errs := []error{findErr}
	progress.watch(logs)
	for _, in := range logs {
		errs = append(errs, finder.Read(discover.Input{Name: in.Name, Labels: in.StreamLabels(), Open: in.Open}))
	}
	progress.end()
	c.reportSkipped(account)
	return errors.Join(errs...)
}

func (c *cli) discoverLoki(ctx context.Context, f discoverFlags, finder *discover.Finder) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	cfg, rg, err := f.loki.source(time.Now())
	if err != nil {
		return err
	}
	lost := 0
	rg.Lost = func(string, string) { lost++ }
	at := &rangeProgress{from: rg.From, to: rg.To}
	progress := c.startProgress("reading Loki", at.state)
	defer progress.end()
	err = loki.ReadRange(ctx, cfg, rg, func(s *matcher.Stream, rec matcher.Record) error {
		at.reached(rec.Time)
		finder.Record(s, rec)
		return nil
	})
	finder.Finish()
	progress.end()
	if lost > 0 {
		fmt.Fprintf(c.err, "%s of Loki could not be read\n", text.Plural(lost, "entry"))
	}
	return err
}

// printDiscovered writes the list or the pack, and a summary to stderr.
func (c *cli) printDiscovered(of *discovery, r discover.Report, why bool) error {
	f := of.flags
	out := bufio.NewWriter(c.out)
	var err error
	switch {
	case f.rulesOut == inputs.Stdin:
	case f.output.value == "json":
		err = show.JSON(out, r, true)
	default:
		err = show.Patterns(out, r, why)
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
	return c.writeDiscovered(of, r)
}

// maxRules bounds the rules for one pattern and its variants.
const maxRules = 8

// skeletonsOf returns the fewest rules that match a pattern and its variants and
// pass their tests. missing is the number of variants without a rule.
func skeletonsOf(p discover.Pattern) (out []discover.RuleSkeleton, missing int) {
	left := append([]discover.Pattern{p}, p.Variants...)
	for n := 0; len(left) > 0 && n < maxRules; n++ {
		first := left[0]
		var same, others []discover.Pattern
		for _, v := range left[1:] {
			if sameSelector(first.Labels, v.Labels) {
				same = append(same, v)
			} else {
				others = append(others, v)
			}
		}
		s, rest, ok := skeletonOf(first, same)
		if ok {
			out = append(out, s)
		} else {
			missing++
		}
		left = append(rest, others...)
	}
	return out, missing + len(left)
}

func sameSelector(a, b map[string]string) bool {
	label, value := discover.SelectorOf(a)
	label2, value2 := discover.SelectorOf(b)
	return label == label2 && value == value2
}

// skeletonOf returns the most specific rule for a pattern that passes its tests. It
// covers as many variants as possible and returns the others in left.
func skeletonOf(p discover.Pattern, variants []discover.Pattern) (s discover.RuleSkeleton, left []discover.Pattern, ok bool) {
	for _, proposal := range discover.ProposeFor(p) {
		s = discover.RuleSkeleton{Proposal: proposal, Severity: discover.SeverityOf(p.Level), Labels: p.Labels, Component: discover.ComponentOf(p.Labels)}
		s.Label, s.Value = discover.SelectorOf(p.Labels)
		s.Comments = []string{fmt.Sprintf("%s in %s, first %s:%d", text.Plural(p.Count, "line"), text.Plural(int64(p.Streams), "stream"), redact.Sanitise(p.Input), p.LineNumber)}
		s.Alert = discover.AlertName(s.Component, &proposal, map[string]bool{})
		for s.Others, left = discover.Gather(&s.Proposal, variants); ; s.Others, left = nil, variants {
			if loader.Try("new.yaml", []byte(discover.Skeleton("discovered", []discover.RuleSkeleton{s}))) == nil {
				return s, left, true
			}
			if len(s.Others) == 0 {
				break
			}
		}
	}
	return s, variants, false
}

func (c *cli) writeDiscovered(of *discovery, r discover.Report) error {
	path := of.flags.rulesOut
	var all []discover.RuleSkeleton
	without := 0
	for _, p := range r.Patterns {
		s, missing := skeletonsOf(p)
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
	if err := loader.Try(cmp.Or(path, "new.yaml"), []byte(pack)); err != nil {
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
