package cli

import (
	"github.com/spf13/cobra"

	"crowsnest/cli/internal/show"
	"crowsnest/rules"
)

func newRules(c *cli) *cobra.Command {
	return newParent("rules", "List and show rules, create, try or import rules, or write runbooks",
		newRulesList(c), newRulesShow(c), newRulesNew(c), newRulesImport(c), newRulesCapture(c), newRulesDocs(c), newRulesVerifySource(c))
}

type listedRule struct {
	Alert    string         `json:"alert"`
	Pack     string         `json:"pack"`
	File     string         `json:"file"`
	Line     int            `json:"line"`
	Severity rules.Severity `json:"severity"`
	Scope    rules.Scope    `json:"scope"`
	Enabled  rules.Mode     `json:"enabled"`
	From     string         `json:"from"`
	Origin   rules.Origin   `json:"origin"`
	By       []string       `json:"by"`
	Resolves string         `json:"resolves"`
	Tests    int            `json:"tests"`
}

func newRulesList(c *cli) *cobra.Command {
	var f ruleFlags
	output := newOneOf("text", "json")
	cmd := &cobra.Command{
		Use: "list", Short: "List the effective rules", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			load := f.load
			if output.value == "json" { // the JSON output contains the number of tests, so the tests are needed
				load = f.loadWithTests
			}
			set, err := load(c)
			if err != nil {
				return err
			}
			if output.value == "text" {
				return show.WriteRules(c.out, set.Rules, show.ListStyle{Color: c.colors(c.out)})
			}
			all := make([]listedRule, len(set.Rules))
			for i, r := range set.Rules {
				all[i] = listedRule{
					Alert: r.Alert, Pack: r.Pack, File: r.File, Line: r.Line, Severity: r.Severity, Scope: r.Scope,
					Enabled: r.Mode, From: r.From.String(), Origin: r.LineOrigin(), By: r.By, Resolves: r.Resolves(), Tests: len(r.Tests),
				}
			}
			return show.JSON(c.out, map[string]any{"rules": all}, true)
		},
	}
	f.add(cmd)
	cmd.Flags().VarP(output, "output", "o", "output format")
	return cmd
}

func newRulesShow(c *cli) *cobra.Command {
	var f ruleFlags
	cmd := &cobra.Command{
		Use:   "show RULE",
		Short: "Show the effective rule and where each of its values comes from",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			set, err := f.loadWithTests(c)
			if err != nil {
				return err
			}
			r, err := show.FindRule(set, args[0])
			if err != nil {
				return err
			}
			if err := show.WriteRule(c.out, r); err != nil {
				return err
			}
			return show.WriteOrigin(c.out, r)
		},
	}
	f.add(cmd)
	return cmd
}
