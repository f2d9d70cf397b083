package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"

	"crowsnest/cli/internal/show"
	"crowsnest/daemon/config"
	"crowsnest/daemon/loader"
	"crowsnest/internal/text"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/strictyaml"
)

func newCheck(c *cli) *cobra.Command {
	return newParent("check", "Check rule packs or a configuration", newCheckRules(c), newCheckConfig(c))
}

type checkFlags struct {
	strict    bool
	lintFatal bool
	shipped   bool
	output    *oneOf
}

func newCheckRules(c *cli) *cobra.Command {
	f := checkFlags{output: newOneOf("text", "json", "github")}
	cmd := &cobra.Command{
		Use:   "rules [flags] PATH...",
		Short: "Find every problem of rule packs and overrides",
		Long: `Checks packs and overrides (files, folders, or - for standard input) and prints
every problem with its position and the fix. All files are checked as one set,
as the daemon would load them; the path shipped adds the built-in packs.

-o github prints workflow commands that GitHub shows as annotations of a change.

Exit codes: 0 no errors, 1 errors, 3 warnings with --lint-fatal.`,
		Example: `  crowsnest check rules packs/ overrides.yaml
  crowsnest check rules -o github --lint-fatal packs/`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return c.checkRules(f, args) },
	}
	cmd.Flags().BoolVar(&f.strict, "strict", false, "warnings count as errors")
	cmd.Flags().BoolVar(&f.lintFatal, "lint-fatal", false, "exit with 3 if there are warnings only")
	cmd.Flags().BoolVar(&f.shipped, "shipped", false, "apply the requirements of shipped packs too: a number of rules, tests that fire and tests that do not")
	cmd.Flags().VarP(f.output, "output", "o", "output format")
	return cmd
}

func (c *cli) checkRules(f checkFlags, args []string) error {
	files, problems := c.readRules(args, loader.Shipped)
	docs, found := loader.ParseFiles(files)
	set, more := loader.BuildSet(docs, rules.Options{Shipped: f.shipped})
	problems = slices.Concat(problems, found, more)
	if set != nil {
		untested, err := replay.Untested(set.Rules)
		if err != nil {
			return err
		}
		problems = slices.Concat(problems, untested, replay.UnknownLabels(set.Rules, rules.StreamLabels))
	}
	problems.Sort()
	if err := writeProblems(c.out, f.output.value, problems); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	errs, warns := len(problems.Errors()), len(problems.Warnings())
	if f.output.value == "text" && len(docs) > 0 {
		n := 0
		if set != nil {
			n = len(set.Rules)
		}
		fmt.Fprintf(c.err, "%s, %s: %s, %s\n", text.Plural(int64(len(docs)), "file"), text.Plural(int64(n), "rule"), text.Plural(int64(errs), "error"), text.Plural(int64(warns), "warning"))
		fmt.Fprint(c.err, silentText(set))
	}
	switch {
	case errs > 0, f.strict && warns > 0:
		return exitCode(exitFailed)
	case f.lintFatal && warns > 0:
		return exitCode(exitLint)
	}
	return nil
}

// silentText says how long alerts fire that were raised because an expected line stopped. It
// returns "" if set has no rule with `silent`, or is nil.
func silentText(set *rules.Set) string {
	if set == nil {
		return ""
	}
	var all []string
	for _, r := range set.Rules {
		if r.Silent > 0 {
			all = append(all, fmt.Sprintf("%s (%s)", r.Alert, model.Duration(r.Expire)))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "rules with `silent` fire until the line returns, at most for `expire`: " + strings.Join(all, ", ") + "\n"
}

func newCheckConfig(c *cli) *cobra.Command {
	output := newOneOf("text", "json", "github")
	cmd := &cobra.Command{
		Use:   "config FILE",
		Short: "Check a configuration and all files that it refers to",
		Long: `Checks the configuration of the daemon strictly, with all files that it refers
to: rule packs, overrides, secret files, certificates. Prints every problem.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return c.checkConfig(args[0], output.value) },
	}
	cmd.Flags().VarP(output, "output", "o", "output format")
	return cmd
}

func (c *cli) checkConfig(file, form string) error {
	data, err := c.readFile(file)
	if err != nil {
		return err
	}
	cfg, problems := config.Parse(file, data)
	rulesLoaded := 0
	var set *rules.Set
	if len(problems.Errors()) == 0 {
		problems = append(problems, cfg.CheckFiles()...)
		var found rules.Problems
		set, found = loader.Load(cfg)
		problems = append(problems, found...)
		if set != nil {
			rulesLoaded = len(set.Rules)
			problems = append(problems, slices.Concat(cfg.WarnBlind(set), cfg.WarnLinks())...)
		}
	}
	if err := writeProblems(c.out, form, problems); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	errs := len(problems.Errors())
	if form == "text" {
		fmt.Fprintf(c.err, "%s: %s: %s, %s\n", file, text.Plural(int64(rulesLoaded), "rule"), text.Plural(int64(errs), "error"), text.Plural(int64(len(problems.Warnings())), "warning"))
		if errs == 0 {
			fmt.Fprintln(c.err, identityText(cfg.Global.Identity))
			fmt.Fprint(c.err, originText(set))
		}
	}
	if errs > 0 {
		return exitCode(exitFailed)
	}
	return nil
}

// identityText says which labels distinguish clusters.
func identityText(names []string) string {
	if len(names) == 0 {
		return "identity: none; lines of all clusters are evaluated together (global.identity)"
	}
	return fmt.Sprintf("identity: streams that differ in %s never count, clear or mute together (global.identity)", strings.Join(names, " or "))
}

type problemLine struct {
	strictyaml.Problem
	Severity string `json:"severity"`
}

func writeProblems(w io.Writer, form string, problems strictyaml.Problems) error {
	switch form {
	case "json":
		all := make([]problemLine, len(problems))
		for i, p := range problems {
			all[i] = problemLine{p, p.Level.String()}
		}
		return show.JSON(w, map[string]any{"problems": all}, true)
	case "github":
		return writeGitHub(w, problems)
	}
	for _, p := range problems {
		if _, err := fmt.Fprintln(w, p.String()); err != nil {
			return err
		}
	}
	return nil
}

// originText lists the namespaces whose lines the rules trust, and the critical rules that do
// not state an origin. set may be nil.
func originText(set *rules.Set) string {
	if set == nil {
		return ""
	}
	restricted := 0
	var unstated []string
	for _, r := range set.Rules {
		switch _, stated := r.SetBy()["origin"]; {
		case r.Infrastructure:
			restricted++
		case r.Severity == rules.SeverityCritical && r.Mode == rules.ModeOn && !stated:
			unstated = append(unstated, r.Alert)
		}
	}
	trust := text.Plural(restricted, "rule") + " trust"
	if restricted == 1 {
		trust += "s"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s infrastructure namespaces only (rules.infrastructure_namespaces): %s\n",
		trust, strings.Join(set.Namespaces.List(), ", "))
	if len(unstated) > 0 {
		fmt.Fprintf(&b, "anyone who can run a pod can raise %s, because `origin` is not stated: %s\n", text.Plural(len(unstated), "critical alert"), strings.Join(unstated, ", "))
	}
	return b.String()
}
