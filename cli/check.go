package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"

	"crowsnest/cli/internal/show"
	"crowsnest/daemon/config"
	"crowsnest/daemon/loader"
	"crowsnest/internal/strictyaml"
	"crowsnest/internal/text"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/rules"
)

func newCheck(c *cli) *cobra.Command {
	return newParent("check", "Check rule packs or a configuration", newCheckRules(c), newCheckConfig(c))
}

type checkFlags struct {
	strict    bool
	lintFatal bool
	shipped   bool
	namespace string
	output    *oneOf
}

func newCheckRules(c *cli) *cobra.Command {
	f := checkFlags{output: newOneOf("text", "json", "github")}
	cmd := &cobra.Command{
		Use:   "rules [flags] PATH...",
		Short: "Find every problem of rule packs and overrides",
		Args:  cobra.MinimumNArgs(1),
		RunE:  func(_ *cobra.Command, args []string) error { return c.checkRules(f, args) },
	}
	cmd.Flags().BoolVar(&f.strict, "strict", false, "warnings count as errors")
	cmd.Flags().BoolVar(&f.lintFatal, "lint-fatal", false, "exit with 3 if there are warnings only")
	cmd.Flags().BoolVar(&f.shipped, "shipped", false, "apply the requirements of shipped packs too: a number of rules, tests that fire and tests that do not")
	cmd.Flags().StringVar(&f.namespace, "namespace", "", "check packs that a ConfigMap of the namespace `NAME` will contain")
	cmd.Flags().VarP(f.output, "output", "o", "output format")
	return cmd
}

func (c *cli) checkRules(f checkFlags, args []string) error {
	files, problems := c.readRules(args, loader.Shipped)
	for i := range files {
		if !files[i].Released {
			files[i].Namespace = f.namespace
		}
	}
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
		set = cmp.Or(set, &rules.Set{})
		fmt.Fprintf(c.err, "%s, %s: %s, %s\n%s", text.Plural(len(docs), "file"), text.Plural(len(set.Rules), "rule"),
			text.Plural(errs, "error"), text.Plural(warns, "warning"), silentText(set))
	}
	switch {
	case errs > 0, f.strict && warns > 0:
		return exitCode(exitFailed)
	case f.lintFatal && warns > 0:
		return exitCode(exitLint)
	}
	return nil
}

// silentText describes how long alerts of rules with `silent` fire after their expected line has stopped. It returns ""
// if set has no such rule.
func silentText(set *rules.Set) string {
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
		Use: "config FILE", Short: "Check a configuration and all files that it refers to", Args: cobra.ExactArgs(1),
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
	set := &rules.Set{}
	if len(problems.Errors()) == 0 {
		loaded, found := loader.Load(cfg)
		problems = slices.Concat(problems, cfg.CheckFiles(), found)
		if loaded != nil {
			set = loaded
			problems = slices.Concat(problems, cfg.WarnBlind(set), cfg.WarnLinks())
		}
	}
	if err := writeProblems(c.out, form, problems); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	errs := len(problems.Errors())
	if form == "text" {
		fmt.Fprintf(c.err, "%s: %s: %s, %s\n", file, text.Plural(len(set.Rules), "rule"), text.Plural(errs, "error"), text.Plural(len(problems.Warnings()), "warning"))
		if errs == 0 {
			fmt.Fprintf(c.err, "%s\n%s", identityText(cfg.Global.Identity), originText(set))
		}
	}
	if errs > 0 {
		return exitCode(exitFailed)
	}
	return nil
}

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

// originText lists the trusted namespaces, and the critical rules without an explicit origin.
func originText(set *rules.Set) string {
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

// Names of checks that do not concern the content of one file.
const (
	testFailed  = "test-failed"
	unprotected = "unprotected"
)

// testProblems returns a problem for each failed test, and for each part of a rule that no test protects.
func testProblems(report replay.TestReport) (out strictyaml.Problems) {
	for _, t := range report.Results {
		if len(t.Failures) > 0 {
			out = append(out, strictyaml.Problem{
				File: t.File, Line: t.Line, Check: testFailed, Rule: t.Rule,
				Message: fmt.Sprintf("test %q of rule %s failed\n%s", t.Test, t.Rule, strings.Join(t.Failures, "\n")),
			})
		}
	}
	for _, s := range report.Survivors {
		out = append(out, strictyaml.Problem{
			File: s.File, Line: s.Line, Check: unprotected, Rule: s.Rule,
			Message: fmt.Sprintf("rule %s: without %s all of its tests still pass", s.Rule, s.Part), Fix: "add a test that fails without it",
		})
	}
	return out
}

// writeGitHub writes problems as GitHub workflow commands. GitHub shows them as annotations of lines, at most ten of
// each level per step. Paths are made relative to the working directory, which is assumed to be the root of the
// repository.
func writeGitHub(w io.Writer, problems strictyaml.Problems) error {
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := func(s string) string {
		return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(data.Replace(s))
	}
	dir, _ := os.Getwd() // after an error, paths stay absolute
	for _, p := range problems {
		if rel, err := filepath.Rel(dir, p.File); filepath.IsAbs(p.File) && err == nil && filepath.IsLocal(rel) {
			p.File = rel
		}
		place := ""
		if p.File != "" {
			place = fmt.Sprintf("file=%s,line=%d,col=%d,", property(p.File), max(p.Line, 1), max(p.Column, 1))
		}
		if p.Fix != "" {
			p.Message += "\nfix: " + p.Fix
		}
		lines := strings.Split(p.Message, "\n")
		for i, l := range lines {
			lines[i] = redact.Sanitise(l)
		}
		if _, err := fmt.Fprintf(w, "::%s %stitle=%s::%s\n", p.Level, place, property(cmp.Or(p.Check, "crowsnest")), data.Replace(strings.Join(lines, "\n"))); err != nil {
			return err
		}
	}
	return nil
}
