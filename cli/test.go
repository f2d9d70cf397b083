package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/spf13/cobra"

	"crowsnest/cli/internal/show"
	"crowsnest/daemon/loader"
	"crowsnest/internal/strictyaml"
	"crowsnest/replay"
)

type testFlags struct {
	run     string
	shipped bool
	mutate  bool
	junit   string
	verbose bool
	output  *oneOf
}

func newTest(c *cli) *cobra.Command {
	return newParent("test", "Run the tests of rule packs", newTestRules(c))
}

func newTestRules(c *cli) *cobra.Command {
	f := testFlags{output: newOneOf("text", "json", "github")}
	cmd := &cobra.Command{
		Use:   "rules [flags] {PATH...|--shipped}",
		Short: "Run the tests in rule packs",
		RunE:  func(_ *cobra.Command, args []string) error { return c.testRules(f, args) },
	}
	cmd.Flags().BoolVar(&f.shipped, "shipped", false, "test the shipped packs")
	cmd.Flags().StringVar(&f.run, "run", "", "run only the tests whose RULE/TEST matches this regular expression, a `REGEX`")
	cmd.Flags().BoolVar(&f.mutate, "mutate", false, "also find parts of rules that no test covers")
	cmd.Flags().StringVar(&f.junit, "junit", "", "write the results as JUnit XML to `FILE`")
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "list passing tests too")
	cmd.Flags().VarP(f.output, "output", "o", "output format")
	return cmd
}

func (c *cli) testRules(f testFlags, args []string) error {
	opt := replay.TestOptions{Mutate: f.mutate}
	if f.run != "" {
		re, err := regexp.Compile(f.run)
		if err != nil {
			return usageErrorf("--run: %v", err)
		}
		opt.Run = re
	}
	if !f.shipped && len(args) == 0 {
		return usageErrorf("test rules needs a pack or a folder of packs, or --shipped")
	}
	if f.shipped {
		args = append(args, shippedRules)
	}
	set, err := c.loadRules(args, loader.Shipped)
	var problems strictyaml.Problems
	if f.output.value != "text" && errors.As(err, &problems) {
		return errors.Join(writeProblems(c.out, f.output.value, problems), exitCode(exitFailed))
	}
	if err != nil {
		return err
	}
	report, err := replay.RunTests(set.Rules, opt)
	if err != nil {
		return fmt.Errorf("run tests: %w", err)
	}
	if err := writeTests(c.out, f, report); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	if f.junit != "" {
		if err := writeJUnit(f.junit, report); err != nil {
			return err
		}
	}
	if report.Failed() > 0 || len(report.Survivors) > 0 {
		return exitCode(exitFailed)
	}
	if len(report.Results) == 0 && f.run != "" {
		return fmt.Errorf("no test matches --run %q", f.run)
	}
	return nil
}

type testedRules struct {
	Tests     int                 `json:"tests"`
	Failed    int                 `json:"failed"`
	Mutants   int                 `json:"mutants"`
	Survivors []replay.Survivor   `json:"survivors"`
	Results   []replay.TestResult `json:"results"`
}

func writeTests(w io.Writer, f testFlags, report replay.TestReport) error {
	switch f.output.value {
	case "json":
		return show.JSON(w, testedRules{
			Tests: len(report.Results), Failed: report.Failed(), Mutants: report.Mutants,
			Survivors: append([]replay.Survivor{}, report.Survivors...), Results: append([]replay.TestResult{}, report.Results...),
		}, true)
	case "github":
		return writeGitHub(w, testProblems(report))
	}
	return report.WriteText(w, f.verbose)
}

func writeJUnit(file string, report replay.TestReport) error {
	out, err := os.Create(file)
	if err == nil {
		err = errors.Join(report.WriteJUnit(out), out.Close())
	}
	if err != nil {
		return fmt.Errorf("write JUnit report: %w", err)
	}
	return nil
}
