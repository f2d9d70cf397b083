package cli

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"crowsnest/daemon/config"
	"crowsnest/daemon/loader"
	"crowsnest/export"
	"crowsnest/rules"
)

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
		Long: `Writes the part inhibit_rules of Alertmanager's configuration, for rules with
symptom_of. It takes effect with the setting inhibit: true of the sink
alertmanager, by which crowsnest sends an alert CrowsnestCauseKnown beside each
alert whose cause was known when it was first sent. Alertmanager then notifies of
the cause alone, and of its symptoms only if they outlast it. Nobody is notified of
CrowsnestCauseKnown.

A symptom is not inhibited if it began before its cause, if their labels differ, or
if people may have been notified of it before its cause was known; and never by a
cause that is less severe. Such rules are refused, and standard error says why.

Labels that crowsnest adds to alerts must agree, too: name the file of its
configuration, or each label with --equal.`,
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
	opt, err := f.options()
	if err != nil {
		return err
	}
	in := export.InhibitOptions{Keep: opt.Keep, Strict: f.strict, Identity: rules.DefaultIdentity, External: f.equal}
	set, err := c.inhibitSet(f, &in)
	if err != nil {
		return err
	}
	res := export.Alertmanager(set, in)
	comment := "Inhibition rules of crowsnest for Alertmanager, written by `crowsnest export alertmanager`.\n" +
		"They need the setting inhibit: true of crowsnest's sink alertmanager.\nChange the packs and export again instead of editing this file."
	if err := res.WriteInhibitions(c.out, comment); err != nil {
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

// inhibitSet loads the rules, and adds the labels that a configuration states.
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
