package cli

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"crowsnest/daemon/config"
	"crowsnest/daemon/loader"
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
	cmd := newParent("export", "Write rules for other programs: Loki's ruler, Prometheus, Alertmanager",
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
			return c.export(f, "LogQL for Loki's ruler", export.ExportLoki)
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
			return c.export(f, "PromQL over the metrics of crowsnest", export.ExportPrometheus)
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.episodes, "episodes", false, "alert on open episodes instead of matched lines")
	return cmd
}

func (f exportFlags) exportOptions() (export.Options, error) {
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

// nothingError returns the error for flags that select no rule.
func (f exportFlags) nothingError(set *rules.Set) error {
	var known, said []string
	for _, r := range set.Rules {
		known = append(known, r.Pack, r.Alert)
	}
	hint := ""
	for i, name := range slices.Concat(f.packs, f.alerts) {
		flag := "--pack "
		if i >= len(f.packs) {
			flag = "--rule "
		}
		said = append(said, flag+name)
		if !slices.Contains(known, name) {
			hint = cmp.Or(hint, suggestion(name, known))
		}
	}
	return usageErrorf("no rule matches %s%s", strings.Join(said, " "), hint)
}

// matchesGlob reports whether name matches one of the globs. Without globs every name matches.
func matchesGlob(globs []string, name string) bool {
	return len(globs) == 0 || slices.ContainsFunc(globs, func(glob string) bool {
		ok, _ := path.Match(glob, name)
		return ok
	})
}

func (c *cli) export(f exportFlags, name string, run func(*rules.Set, export.Options) export.Result) error {
	opt, err := f.exportOptions()
	if err != nil {
		return err
	}
	set, err := f.rules.load(c)
	if err != nil {
		return err
	}
	res := run(set, opt)
	if res.CountExported()+len(res.Refused) == 0 {
		return f.nothingError(set)
	}
	comment := "Rules of crowsnest in " + name + ", written by `crowsnest export`.\nChange the packs and export again instead of editing this file."
	if f.output.value == "prometheusrule" {
		err = res.WritePrometheusRule(c.out, "crowsnest-rules", comment)
	} else {
		err = res.WriteGroups(c.out, comment)
	}
	if err != nil {
		return fmt.Errorf("write the rules: %w", err)
	}
	return f.reportRefused(c, res.Summary(), len(res.Refused))
}

// reportRefused lists the rules that were refused. It returns an error unless the flags allow
// refused rules.
func (f exportFlags) reportRefused(c *cli, summary string, refused int) error {
	if _, err := fmt.Fprint(c.err, summary); err != nil {
		return err
	}
	if refused > 0 && !f.skipRefused {
		return exitCode(exitFailed)
	}
	return nil
}

type inhibitFlags struct {
	exportFlags
	config string
	equal  []string
}

func newExportAlertmanager(c *cli) *cobra.Command {
	f := inhibitFlags{exportFlags: exportFlags{output: newOneOf("yaml")}}
	cmd := &cobra.Command{
		Use:   "alertmanager",
		Short: "Inhibition rules for Alertmanager: one page for a cause and its symptoms",
		Long: `Writes the section inhibit_rules of Alertmanager's configuration, for rules with
symptom_of. It needs the setting inhibit: true of the sink alertmanager. With this
setting, crowsnest sends a second alert, CrowsnestCauseKnown, for each alert whose
cause was known when the alert was first sent. Alertmanager then notifies about the
cause, and about a symptom only if it outlasts the cause. Nobody is notified about
CrowsnestCauseKnown.

A symptom is not inhibited if it began before its cause, if the labels of the two
differ, or if people may have been notified about the symptom before its cause was
known. A cause that is less severe than the rule never inhibits its alerts; such a
rule is refused, and standard error says why.

Labels that crowsnest adds to all alerts must also agree. Name them by the
configuration that sets them (--config.file), or one by one with --equal.`,
		Example: `  crowsnest export alertmanager --config.file crowsnest.yml > inhibit.yml
  crowsnest export alertmanager --pack leases --equal environment`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return c.exportInhibitions(f) },
	}
	f.rules.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config.file", "", "take rules, identity and external labels from this configuration of the daemon: a `FILE`")
	flags.StringArrayVar(&f.packs, "pack", nil, "export only the symptoms of this pack: a name or `GLOB` (repeatable)")
	flags.StringArrayVar(&f.alerts, "rule", nil, "export only this symptom: a name or `GLOB` (repeatable)")
	flags.StringArrayVar(&f.equal, "equal", nil, "further label that must agree: the `NAME` of an external label (repeatable)")
	flags.BoolVar(&f.strict, "strict", false, "refuse rules that are otherwise exported with a warning")
	flags.BoolVar(&f.skipRefused, "skip-refused", false, "exit with 0 even if rules were refused")
	return cmd
}

func (c *cli) exportInhibitions(f inhibitFlags) error {
	opt, err := f.exportOptions()
	if err != nil {
		return err
	}
	in := export.InhibitOptions{Keep: opt.Keep, Strict: f.strict, Identity: rules.DefaultIdentity, External: f.equal}
	set, err := c.inhibitSet(f, &in)
	if err != nil {
		return err
	}
	res := export.ExportInhibitions(set, in)
	comment := "Inhibition rules of crowsnest for Alertmanager, written by `crowsnest export alertmanager`.\n" +
		"They need the setting inhibit: true of crowsnest's sink alertmanager.\nChange the packs and export again instead of editing this file."
	if err := res.WriteInhibitions(c.out, comment); err != nil {
		return fmt.Errorf("write the rules: %w", err)
	}
	return f.reportRefused(c, res.Summary(), len(res.Refused))
}

// inhibitSet loads the rules, and adds to in the labels that the configuration states.
func (c *cli) inhibitSet(f inhibitFlags, in *export.InhibitOptions) (*rules.Set, error) {
	if f.config == "" {
		return f.rules.load(c)
	}
	if len(f.rules.paths)+len(f.rules.overrides) > 0 {
		return nil, usageErrorf("--config.file cannot be combined with --rules or --overrides: the configuration names its rules")
	}
	data, err := c.readFile(f.config)
	if err != nil {
		return nil, err
	}
	cfg, problems := config.Parse(f.config, data)
	if errs := problems.Errors(); len(errs) > 0 {
		return nil, fmt.Errorf("read the configuration:\n%w", errs)
	}
	set, found := loader.Load(cfg)
	if errs := found.Errors(); len(errs) > 0 {
		return nil, fmt.Errorf("load rules:\n%w", errs)
	}
	in.Identity = cfg.Global.Identity
	for _, labels := range cfg.ExternalLabels() {
		in.External = slices.AppendSeq(in.External, maps.Keys(labels))
	}
	return set, nil
}
