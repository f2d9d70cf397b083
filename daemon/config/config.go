package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"crowsnest/daemon/component"
	"crowsnest/daemon/configmaps"
	"crowsnest/daemon/lead"
	"crowsnest/internal/lazyre"
	"crowsnest/internal/strictyaml"
	"crowsnest/redact"
	"crowsnest/rules"
	"crowsnest/sinks/alertmanager"
)

// DefaultFile is the file in which the daemon looks for its configuration.
const DefaultFile = "/etc/crowsnest/crowsnest.yml"

// DefaultStorage is the default folder of the state.
const DefaultStorage = "data"

// Config is the configuration file of the daemon.
type Config struct {
	Global    Global          `yaml:"global"`
	Rules     RulesConfig     `yaml:"rules"`
	Sources   component.Parts `yaml:"sources"`
	Sinks     component.Parts `yaml:"sinks"`
	Limits    Limits          `yaml:"limits"`
	Sentinel  Sentinel        `yaml:"sentinel"`
	Redaction Redaction       `yaml:"redaction"`
	Storage   Storage         `yaml:"storage"`
	Web       Web             `yaml:"web"`
	// HighAvailability makes this process one of two, of which one leads and the other stands by.
	HighAvailability *lead.Settings `yaml:"high_availability"`

	Keys strictyaml.Keys `yaml:"-"`
	file string
}

// Global holds settings for all sources and sinks.
type Global struct {
	// ExternalLabels are labels that are added to every alert and are part of the alert's identity.
	ExternalLabels map[string]string `yaml:"external_labels" bounds:"0,64,4096"`
	// Identity names stream labels that belong to the key of every rule. Lines of streams
	// that differ in one of these labels, such as two clusters, never count, clear or mute
	// together. Default cluster and tenant; [] means no labels.
	Identity []string `yaml:"identity" bounds:"0,1000,4096"`
	// ExternalURL is the address of the pages of this daemon, to which alerts link.
	ExternalURL string `yaml:"external_url" bounds:"0,4096"`
	// BlindAfter is the time for which a source or an agent may be down before CrowsnestBlind fires.
	BlindAfter time.Duration `yaml:"blind_after" bounds:"1s,24h"`

	Keys strictyaml.Keys `yaml:"-"`
}

// ApplyTo adds the global labels and the global address to a sink's settings. The sink's own values take precedence.
func (g Global) ApplyTo(labels *map[string]string, url *string) {
	*labels = MergeLabels(g.ExternalLabels, *labels)
	if *url == "" {
		*url = g.ExternalURL
	}
}

// MergeLabels returns the entries of a and b. If both have a label, the value of b is used. It
// returns nil if there are no entries.
func MergeLabels(a, b map[string]string) map[string]string {
	if len(a)+len(b) == 0 {
		return nil
	}
	out := map[string]string{}
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// RulesConfig selects the active rules.
type RulesConfig struct {
	// Shipped loads the packs that are part of the program. Default true.
	Shipped bool `yaml:"shipped"`
	// Paths are files and folders of rule packs, relative to the folder of the
	// configuration file. In a folder, files *.yaml and *.yml are read, but no subfolders.
	Paths []string `yaml:"paths" bounds:"0,1000,4096"`
	// Overrides are files or folders of overrides, which are applied in the order of the list.
	Overrides []string `yaml:"overrides" bounds:"0,1000,4096"`
	// Scope is "node" if this process reads the logs of a single node and has no upstream. Then only rules that need
	// lines of a single node are active. Default cluster.
	Scope rules.Scope `yaml:"scope" bounds:"0,4096" jsonschema:"enum=node,enum=cluster"`
	// InfrastructureNamespaces are the namespaces that rules with `origin: infrastructure` trust. "+x" adds a name or
	// glob to the built-in list, "-x" removes one from the list, and a plain name replaces the list. ["*"] trusts
	// every namespace.
	InfrastructureNamespaces []string `yaml:"infrastructure_namespaces" bounds:"0,1000,4096"`
	// AlertUnverified raises the alert CrowsnestRulesUnverified for each running release
	// of a component whose rules were not verified for that release.
	AlertUnverified bool `yaml:"alert_unverified"`
	// ConfigMaps enables packs of namespaces, which are objects with a certain label. The rules of such a pack read
	// only streams of its namespace (see docs/packs.md). An agent gets these packs from its aggregator.
	ConfigMaps *configmaps.Settings `yaml:"config_maps"`
	// AllowEmpty allows a daemon without rules.
	AllowEmpty bool `yaml:"allow_empty"`

	Keys strictyaml.Keys `yaml:"-"`
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (r *RulesConfig) DecodeYAML(n *strictyaml.Node) {
	type plain RulesConfig
	n.DecodeHints((*plain)(r), map[string]strictyaml.Hint{
		"artifacts": {Message: "is no longer supported: the daemon does not fetch packs from registries", Fix: "name a folder in `paths`, and mount or fetch the packs into it; docs/packs.md has ways for Git, ConfigMaps and OCI artifacts"},
	})
}

// ExternalLabels returns the labels that receivers add to alerts. The labels of the
// configuration come first, then other sets.
func (c *Config) ExternalLabels() []map[string]string {
	out := []map[string]string{c.Global.ExternalLabels}
	for _, am := range component.SettingsOf[alertmanager.Config](c.Sinks) {
		own := MergeLabels(c.Global.ExternalLabels, am.ExternalLabels)
		if !slices.ContainsFunc(out, func(o map[string]string) bool { return maps.Equal(o, own) }) {
			out = append(out, own)
		}
	}
	return out
}

// Limits bound what is kept in memory. Namespaces share each limit. When it is reached, the namespace with the most
// entries loses its oldest, and an alert names it. Infrastructure namespaces have ActiveAlerts once more for
// themselves, and a quarter more of Keys. Critical rules may use a quarter more of both.
type Limits struct {
	// ActiveAlerts is the largest number of open alerts of all rules. Default 1000.
	ActiveAlerts int `yaml:"active_alerts" bounds:"1,1000000"`
	// AlertsPerNamespace is the largest number of open alerts from the logs of one namespace,
	// separately for critical and for other rules. Default half of ActiveAlerts.
	AlertsPerNamespace int `yaml:"alerts_per_namespace" bounds:"0,1000000"`
	// Keys is the largest number of keys that have matching lines but no open alert. Default 10000.
	Keys int `yaml:"keys" bounds:"1,10000000"`
	// Fingerprints is the largest number of lines that are remembered to recognize repeated lines. Default 32768.
	Fingerprints int `yaml:"fingerprints" bounds:"1,100000000"`
	// RuleCPU is the share of one CPU that a rule may use. A rule that uses more for a
	// full minute is quarantined. Default 0.2; 0 turns the limit off.
	RuleCPU float64 `yaml:"rule_cpu" bounds:"0,1024"`
}

// Redaction hides secrets in everything that leaves the daemon.
type Redaction struct {
	// Disabled turns redaction off.
	Disabled bool `yaml:"disabled"`
	// Patterns are further regular expressions (RE2). Everything that they match is hidden.
	Patterns []string `yaml:"patterns" bounds:"0,1000,4096"`

	Keys strictyaml.Keys `yaml:"-"`
}

// Storage configures where the state is saved, and how much of the past.
type Storage struct {
	// Path is the folder of the state. The flag --storage.path overrides it.
	Path string `yaml:"path" bounds:"0,4096"`
	// HistoryFor is the time for which ended alerts are remembered, if there is room. Default 30d.
	HistoryFor time.Duration `yaml:"history_for" bounds:"1h,8760h"`
	// HistoryEntries is the largest number of ended alerts. Default 5000 (see docs/history.md).
	HistoryEntries int `yaml:"history_entries" bounds:"10,200000"`
	// HistoryMiB is the largest size of the file of ended alerts, in MiB. Default 16.
	HistoryMiB int `yaml:"history_mib" bounds:"1,60"`
}

// Default returns the configuration of an empty file.
func Default() *Config {
	return &Config{
		Global:   Global{BlindAfter: 5 * time.Minute, Identity: rules.DefaultIdentity},
		Rules:    RulesConfig{Shipped: true},
		Sources:  component.Parts{Kinds: component.Sources()},
		Sinks:    component.Parts{Kinds: component.Sinks()},
		Limits:   Limits{ActiveAlerts: 1000, Keys: 10000, Fingerprints: 32768, RuleCPU: 0.2},
		Sentinel: Sentinel{Enabled: true, AlertsPerDay: 10},
		Storage:  Storage{Path: DefaultStorage, HistoryFor: 30 * 24 * time.Hour, HistoryEntries: 5000, HistoryMiB: 16},
	}
}

// Path returns the name of the file.
func (c *Config) Path() string { return c.file }

// Read reads and checks a configuration file. The error lists every problem of the
// file. Read does not open the files that it names.
func Read(file string) (*Config, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read configuration: there is no file %s; write one (crowsnest run --help shows an example) or name yours with --config.file", file)
	}
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	cfg, problems := Parse(file, data)
	if len(problems.Errors()) > 0 {
		return nil, problems
	}
	return cfg, nil
}

// addressPath matches the part after the host of an address under a key url.
var addressPath = lazyre.New(`((?:\b|_)url:\s*["']?(?:https?://)?[^/?\s"'{}]+)[/?][^\s"'{},]+`)

// endpointParams matches the parameters of OAuth2 on one line.
var endpointParams = lazyre.New(`(\bendpoint_params:\s*)\{[^}]*\}?`)

// Parse decodes and checks a configuration.
func Parse(file string, data []byte) (*Config, strictyaml.Problems) {
	cfg := Default()
	return cfg, cfg.Decode(file, data)
}

// Decode decodes a file on top of the defaults in the configuration, and checks it. Relative
// paths are resolved against the folder of the file.
func (c *Config) Decode(file string, data []byte) strictyaml.Problems {
	c.file = file
	problems := strictyaml.Decode(file, data, c, strictyaml.Options{})
	problems = append(problems, c.checkAll()...)
	problems.Sort()
	// The line that a problem shows may contain a password or the address of a webhook, which is also a secret.
	hide := redact.New(nil)
	for i := range problems {
		problems[i].Snippet = endpointParams.ReplaceAllString(problems[i].Snippet, "$1"+secretText)
		problems[i].Snippet = hide.String(addressPath.ReplaceAllString(problems[i].Snippet, "$1/"+secretText))
		problems[i].Message = hide.String(problems[i].Message)
	}
	c.resolvePaths(filepath.Dir(file))
	return problems
}

// resolvePaths resolves the paths in a file against its folder.
func (c *Config) resolvePaths(dir string) {
	join := func(p string) string {
		if p == "" || filepath.IsAbs(p) {
			return p
		}
		return filepath.Join(dir, p)
	}
	for i, p := range c.Rules.Paths {
		c.Rules.Paths[i] = join(p)
	}
	for i, p := range c.Rules.Overrides {
		c.Rules.Overrides[i] = join(p)
	}
	if m := c.Rules.ConfigMaps; m != nil {
		m.Kubeconfig = join(m.Kubeconfig)
	}
	if c.Keys.Has("storage") {
		c.Storage.Path = join(c.Storage.Path)
	}
	for _, p := range c.allParts() {
		for _, f := range fileSettings(p) {
			if !f.http {
				f.value.SetString(join(f.value.String()))
			}
		}
		if h := httpConfig(p); h != nil {
			h.SetDirectory(dir)
		}
		if s, ok := p.Settings.(interface{ SetDirectory(dir string) }); ok {
			s.SetDirectory(dir)
		}
	}
}

func (c *Config) allParts() []component.Part {
	out := slices.Concat(c.Sinks.All, c.Sources.All)
	if ha := c.HighAvailability; ha != nil {
		out = append(out, component.Part{Name: "high_availability", Settings: ha, Keys: ha.Keys})
	}
	return out
}
