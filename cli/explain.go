package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"crowsnest/cli/internal/show"
	"crowsnest/internal/text"
	"crowsnest/matcher"
	"crowsnest/rules"
)

type explainFlags struct {
	rules  ruleFlags
	line   string
	labels []string
	redact bool
}

func newExplain(c *cli) *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain [flags] [RULE]",
		Short: "Explain a rule, or why a line matches it or not",
		Args:  cobra.MaximumNArgs(1),
		RunE:  func(_ *cobra.Command, args []string) error { return c.explain(f, args) },
	}
	f.rules.add(cmd)
	cmd.Flags().StringVar(&f.line, "line", "", "explain why this `TEXT` matches or not")
	cmd.Flags().StringArrayVar(&f.labels, "label", nil, "label of the line's stream, `name=value` (repeatable)")
	cmd.Flags().BoolVar(&f.redact, "redact", true, "redact secrets in the output")
	return cmd
}

func (c *cli) explain(f explainFlags, args []string) error {
	labels, err := parseLabels(f.labels)
	if err != nil {
		return err
	}
	if len(args) == 0 && f.line == "" {
		return usageErrorf("explain needs a rule or --line")
	}
	set, err := f.rules.load(c)
	if err != nil {
		return err
	}
	chosen := set.Rules
	if len(args) == 1 {
		r, err := show.FindRule(set, args[0])
		if err != nil {
			return err
		}
		chosen = []*rules.Rule{r}
	}
	if f.line == "" {
		if err := show.WriteRule(c.out, chosen[0]); err != nil {
			return err
		}
		return c.judge(chosen[0], labels)
	}
	return c.explainLine(chosen, labels, f, len(args) == 1)
}

func (c *cli) explainLine(chosen []*rules.Rule, labels matcher.Labels, f explainFlags, all bool) error {
	matched := 0
	var hide show.LineRedactor
	if f.redact {
		hide = show.NewLineRedactor(f.line)
	}
	for _, r := range chosen {
		e := matcher.Explain(r, labels, []byte(f.line))
		hide.Explanation(&e)
		if e.Matches() {
			matched++
		} else if !all {
			continue
		}
		if _, err := fmt.Fprintln(c.out, e.String()); err != nil {
			return err
		}
		if err := c.judge(r, labels); err != nil {
			return err
		}
	}
	if matched == 0 {
		if !all {
			fmt.Fprintf(c.err, "none of %s matches this line\n", text.Plural(len(chosen), "rule"))
		}
		return exitCode(exitFailed)
	}
	return nil
}

// judge prints whether the version in the stream's image is known to have the failure of the rule.
func (c *cli) judge(r *rules.Rule, labels matcher.Labels) error {
	image := labels["image"]
	if image == "" || len(r.Remediation.Affects) == 0 {
		return nil
	}
	v := r.Remediation.Judge(image)
	_, err := fmt.Fprintf(c.out, "affected: %s: %s\n", v.Affected, v.Text)
	return err
}
