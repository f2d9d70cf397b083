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
	"crowsnest/lab/export"
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
	return newParent("export", "Write rules for other programs: Loki's ruler, Prometheus, Alertmanager",
		newExportLoki(c), newExportPrometheus(c), newExportAlertmanager(c))
}

// add adds the flags that all export commands share. noun names the exported objects in the help texts.
func (f *exportFlags) add(cmd *cobra.Command, noun string) {
	f.rules.add(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&f.packs, "pack", nil, "export only the "+noun+"s of this pack: a name or `GLOB` (repeatable)")
	flags.StringArrayVar(&f.alerts, "rule", nil, "export only this "+noun+": a name or `GLOB` (repeatable)")
	flags.BoolVar(&f.strict, "strict", false, "refuse rules that are otherwise exported with a warning")
	flags.BoolVar(&f.skipRefused, "skip-refused", false, "exit with 0 even if rules were refused")
}

// newCommand returns a command that exports rules as alerting rules in a language.
func (f *exportFlags) newCommand(c *cli, use, language string, run func(*rules.Set, export.Options) export.Result) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: "Alerting rules in " + language, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return c.export(*f, language, run) },
	}
	f.add(cmd, "rule")
	flags := cmd.Flags()
	flags.StringArrayVar(&f.labels, "label", nil, "label of every alert, `name=value` (repeatable)")
	flags.Var(periodVar(&f.interval, 0, 24*time.Hour), "interval", "evaluation interval (default: that of the engine)")
	flags.VarP(f.output, "output", "o", "output format")
	return cmd
}

func newExportLoki(c *cli) *cobra.Command {
	f := exportFlags{output: newOneOf("yaml")}
	cmd := f.newCommand(c, "loki", "LogQL for Loki's ruler", export.LokiRules)
	f.rules.addNamespaces(cmd)
	return cmd
}

func newExportPrometheus(c *cli) *cobra.Command {
	f := exportFlags{output: newOneOf("yaml", "prometheusrule")}
	cmd := f.newCommand(c, "prometheus", "PromQL over the metrics of crowsnest", export.PrometheusRules)
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
	if res.CountExported()+len(res.RefusedRules) == 0 {
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
	return f.reportRefused(c, res.Summary(), len(res.RefusedRules))
}

// reportRefused lists the rules that cannot be exported. It returns an error unless the flags allow such rules.
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
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return c.exportInhibitions(f) },
	}
	f.add(cmd, "symptom")
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config.file", "", "take rules, identity and external labels from this configuration of the daemon: a `FILE`")
	flags.StringArrayVar(&f.equal, "equal", nil, "further label that must agree: the `NAME` of an external label (repeatable)")
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
	res := export.InhibitionRules(set, in)
	comment := "Inhibition rules of crowsnest for Alertmanager, written by `crowsnest export alertmanager`.\n" +
		"They need the setting inhibit: true of crowsnest's sink alertmanager.\nChange the packs and export again instead of editing this file."
	if err := res.WriteInhibitions(c.out, comment); err != nil {
		return fmt.Errorf("write the rules: %w", err)
	}
	return f.reportRefused(c, res.Summary(), len(res.RefusedRules))
}

// inhibitSet loads the rules. It also adds the labels in the configuration to in.
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
