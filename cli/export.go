package cli

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"crowsnest/export"
	"crowsnest/rules"
)

type exportFlags struct {
	rules       ruleFlags
	packs       []string
	alerts      []string
	labels      []string
	interval    time.Duration
	strict      bool
	skipRefused bool
	episodes    bool
	output      *oneOf
}

func newExport(c *cli) *cobra.Command {
	cmd := parent("export", "Write rules for other programs: Loki's ruler, Prometheus, Alertmanager",
		newExportLoki(c), newExportPrometheus(c), newExportAlertmanager(c))
	cmd.Long = `Writes rules in the language of another program to standard output. A rule that
would not mean the same there is refused, and standard error says why. All other
rules are written. The exit code is 1 if a rule was refused, unless
--skip-refused is given.

Only one engine should send an alert of Loki's ruler or Prometheus: disable exported rules in crowsnest, or
give the exported alerts another --label.`
	return cmd
}

func (f *exportFlags) add(cmd *cobra.Command) {
	f.rules.add(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&f.packs, "pack", nil, "export only the rules of this pack: a name or `GLOB` (repeatable)")
	flags.StringArrayVar(&f.alerts, "rule", nil, "export only this rule: a name or `GLOB` (repeatable)")
	flags.StringArrayVar(&f.labels, "label", nil, "label of every alert, `name=value` (repeatable)")
	flags.Var(periodVar(&f.interval, 0, 24*time.Hour), "interval", "evaluation interval (default: that of the engine)")
	flags.BoolVar(&f.strict, "strict", false, "refuse rules that are otherwise exported with a warning")
	flags.BoolVar(&f.skipRefused, "skip-refused", false, "exit with 0 even if rules were refused")
	flags.VarP(f.output, "output", "o", "output format")
}

func newExportLoki(c *cli) *cobra.Command {
	f := exportFlags{output: newOneOf("yaml")}
	cmd := &cobra.Command{
		Use:   "loki",
		Short: "Alerting rules in LogQL for Loki's ruler",
		Long: `Writes a file of rule groups for Loki's ruler: for its local storage as
DIR/TENANT/FILE.yml, or for lokitool and the ruler's API. An exported alert has
the same labels as in crowsnest.

Rules with sequences, clear or unless are refused: the ruler keeps no state of an
episode.`,
		Example: `  crowsnest export loki --rules packs/ > rules/fake/crowsnest.yml
  crowsnest export loki --pack etcd --interval 30s --skip-refused`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return c.export(f, "LogQL for Loki's ruler", export.Loki)
		},
	}
	f.add(cmd)
	f.rules.addNamespaces(cmd)
	return cmd
}

func newExportPrometheus(c *cli) *cobra.Command {
	f := exportFlags{output: newOneOf("yaml", "prometheusrule")}
	cmd := &cobra.Command{
		Use:   "prometheus",
		Short: "Alerting rules in PromQL over the metrics of crowsnest",
		Long: `Writes alerting rules over crowsnest_rule_matches_total, for installations that
evaluate all alerts in Prometheus. The metric counts lines per rule and has no
keys: such an alert says that a rule fires, not where. With --episodes the rules
use crowsnest_episodes, which exists for every rule.

-o prometheusrule writes an object for the Prometheus Operator.`,
		Example: `  crowsnest export prometheus --episodes -o prometheusrule | kubectl apply -f -`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return c.export(f, "PromQL over the metrics of crowsnest", export.Prometheus)
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.episodes, "episodes", false, "alert on open episodes instead of matched lines")
	return cmd
}

func (f exportFlags) options() (export.Options, error) {
	labels, err := parseLabels(f.labels)
	if err != nil {
		return export.Options{}, err
	}
	opt := export.Options{Strict: f.strict, Labels: labels, Episodes: f.episodes, Interval: f.interval}
	for _, glob := range slices.Concat(f.packs, f.alerts) {
		if _, err := path.Match(glob, ""); err != nil {
			return opt, usageErrorf("%q is not a valid glob: %w", glob, err)
		}
	}
	opt.Keep = func(r *rules.Rule) bool { return matchesGlob(f.packs, r.Pack) && matchesGlob(f.alerts, r.Alert) }
	return opt, nil
}

// nothing is the error if no rule is selected.
func (f exportFlags) nothing(set *rules.Set) error {
	var said []string
	hint := ""
	for _, name := range f.packs {
		said = append(said, "--pack "+name)
		hint = cmp.Or(hint, unlessKnown(name, packsOf(set)))
	}
	for _, name := range f.alerts {
		said = append(said, "--rule "+name)
		hint = cmp.Or(hint, unlessKnown(name, alertsOf(set)))
	}
	return usageErrorf("no rule matches %s%s", strings.Join(said, " "), hint)
}

// unlessKnown is meant, and "" for one of the names.
func unlessKnown(name string, names []string) string {
	if slices.Contains(names, name) {
		return ""
	}
	return meant(name, names)
}

// matchesGlob reports whether one of the globs matches, or there are none.
func matchesGlob(globs []string, name string) bool {
	return len(globs) == 0 || slices.ContainsFunc(globs, func(glob string) bool {
		ok, _ := path.Match(glob, name)
		return ok
	})
}

func (c *cli) export(f exportFlags, what string, run func(*rules.Set, export.Options) export.Result) error {
	opt, err := f.options()
	if err != nil {
		return err
	}
	set, err := f.rules.load(c)
	if err != nil {
		return err
	}
	res := run(set, opt)
	if res.Exported()+len(res.Refused) == 0 {
		return f.nothing(set)
	}
	comment := "Rules of crowsnest in " + what + ", written by `crowsnest export`.\nChange the packs and export again instead of editing this file."
	if f.output.value == "prometheusrule" {
		err = res.WritePrometheusRule(c.out, "crowsnest-rules", comment)
	} else {
		err = res.WriteGroups(c.out, comment)
	}
	if err != nil {
		return fmt.Errorf("write the rules: %w", err)
	}
	if _, err := fmt.Fprint(c.err, res.Summary()); err != nil {
		return err
	}
	if len(res.Refused) > 0 && !f.skipRefused {
		return exitCode(exitFailed)
	}
	return nil
}
