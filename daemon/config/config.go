package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"crowsnest/redact"
	"crowsnest/rules"
	"crowsnest/sinks/alertmanager"
	"crowsnest/sinks/loki"
	"crowsnest/sinks/stdout"
	"crowsnest/sinks/upstream"
	"crowsnest/sinks/webhook"
	"crowsnest/sources/agents"
	"crowsnest/sources/files"
	"crowsnest/sources/kubelet"
	"crowsnest/sources/kubernetes"
	lokisource "crowsnest/sources/loki"
	"crowsnest/sources/machines"
	"crowsnest/sources/stdin"
	"crowsnest/strictyaml"
)

// DefaultFile is where the daemon looks for its configuration.
const DefaultFile = "/etc/crowsnest/crowsnest.yml"

// DefaultStorage is where state lies if nothing else is said.
const DefaultStorage = "data"

// DefaultBlindAfter is how long a source may be away before CrowsnestBlind fires.
const DefaultBlindAfter = 5 * time.Minute

// Config is the configuration file of the daemon.
type Config struct {
	Global    Global        `yaml:"global"`
	Rules     RulesConfig   `yaml:"rules"`
	Sources   SourcesConfig `yaml:"sources"`
	Sinks     SinksConfig   `yaml:"sinks"`
	Limits    Limits        `yaml:"limits"`
	Redaction Redaction     `yaml:"redaction"`
	Storage   Storage       `yaml:"storage"`

	Keys strictyaml.Keys `yaml:"-"`
	file string
}

// Global holds what concerns every sink.
type Global struct {
	// ExternalLabels are added to every alert and are part of its identity.
	ExternalLabels map[string]string `yaml:"external_labels" bounds:"0,64,4096"`
	// Identity names the labels of streams that belong to every key of every rule:
	// streams that differ in one of them, such as two clusters, never count, clear
	// or mute together. Default cluster and tenant; [] is none.
	Identity []string `yaml:"identity" bounds:"0,1000,4096"`
	// ExternalURL is where people reach the pages of this daemon; alerts link
	// to it.
	ExternalURL string `yaml:"external_url" bounds:"0,4096"`
	// BlindAfter is how long a source, or an agent, may be away before
	// CrowsnestBlind fires.
	BlindAfter time.Duration `yaml:"blind_after" bounds:"1s,24h"`

	Keys strictyaml.Keys `yaml:"-"`
}

// RulesConfig says which rules are in force.
type RulesConfig struct {
	// Shipped loads the packs that are part of the program; default true.
	Shipped bool `yaml:"shipped"`
	// Paths are files and folders of rule packs. Relative paths start at the
	// folder of the configuration file. In a folder, *.yaml and *.yml are read,
	// subfolders not.
	Paths []string `yaml:"paths" bounds:"0,1000,4096"`
	// Overrides are files or folders of overrides, applied in this order.
	Overrides []string `yaml:"overrides" bounds:"0,1000,4096"`
	// Scope is node where this process sees the logs of one node alone and has no
	// upstream: then only rules are in force whose lines are all on one node.
	// Default cluster: all rules are.
	Scope rules.Scope `yaml:"scope" bounds:"0,4096" jsonschema:"enum=node,enum=cluster"`
	// InfrastructureNamespaces are the namespaces whose lines rules with `origin:
	// infrastructure` believe. "+x" adds a name or glob to the built-in list, "-x"
	// removes one from the list, and a plain name replaces the list. ["*"]: every
	// namespace is believed.
	InfrastructureNamespaces []string `yaml:"infrastructure_namespaces" bounds:"0,1000,4096"`
	// AllowEmpty accepts that no rule is loaded.
	AllowEmpty bool `yaml:"allow_empty"`

	Keys strictyaml.Keys `yaml:"-"`
}

// ExternalLabels returns the labels that receivers add to alerts: first those of
// the configuration, then other sets.
func (c *Config) ExternalLabels() []map[string]string {
	out := []map[string]string{c.Global.ExternalLabels}
	for _, am := range c.Sinks.Alertmanager {
		own := Merged(c.Global.ExternalLabels, am.Config.ExternalLabels)
		if !slices.ContainsFunc(out, func(o map[string]string) bool { return maps.Equal(o, own) }) {
			out = append(out, own)
		}
	}
	return out
}

// SourcesConfig has one optional part per kind of source.
type SourcesConfig struct {
	Kubelet    *Part[kubelet.Config]    `yaml:"kubelet"`
	Kubernetes Parts[kubernetes.Config] `yaml:"kubernetes" bounds:"0,1000"`
	Machines   Parts[machines.Config]   `yaml:"machines" bounds:"0,1000"`
	Files      Parts[files.Config]      `yaml:"files" bounds:"0,1000"`
	Stdin      *Part[stdin.Config]      `yaml:"stdin"`
	Loki       Parts[lokisource.Config] `yaml:"loki" bounds:"0,1000"`
	Agents     *Part[agents.Config]     `yaml:"agents"`
}

// SinksConfig has one optional part per kind of sink.
type SinksConfig struct {
	Alertmanager Parts[alertmanager.Config] `yaml:"alertmanager" bounds:"0,1000"`
	Loki         Parts[loki.Config]         `yaml:"loki" bounds:"0,1000"`
	Webhook      Parts[webhook.Config]      `yaml:"webhook" bounds:"0,1000"`
	Stdout       *Part[stdout.Config]       `yaml:"stdout"`
	Upstream     *Part[upstream.Config]     `yaml:"upstream"`
}

// Limits bound what is kept in memory. Each is shared: beyond it the namespace
// that has the most loses its oldest, and an alert names it. Critical rules have
// a quarter more of ActiveAlerts and Keys that no other rule can use.
type Limits struct {
	// ActiveAlerts bounds the open episodes of all rules.
	ActiveAlerts int `yaml:"active_alerts" bounds:"1,1000000"`
	// AlertsPerNamespace bounds those that the logs of one namespace cause, for
	// critical and for other rules each; 0 means half of ActiveAlerts.
	AlertsPerNamespace int `yaml:"alerts_per_namespace" bounds:"0,1000000"`
	// Keys bounds the keys with a window and without an episode.
	Keys int `yaml:"keys" bounds:"1,10000000"`
	// Fingerprints bounds the lines that are remembered to find repeats.
	Fingerprints int `yaml:"fingerprints" bounds:"1,100000000"`
	// RuleCPU is the share of one CPU that the evaluation of one rule may take.
	// A rule above it for a full minute is given up; 0: none is.
	RuleCPU float64 `yaml:"rule_cpu" bounds:"0,1024"`
}

// Redaction hides secrets in everything that leaves the daemon.
type Redaction struct {
	// Disabled turns it off.
	Disabled bool `yaml:"disabled"`
	// Patterns are further regular expressions (RE2); all that they match is
	// hidden.
	Patterns []string `yaml:"patterns" bounds:"0,1000,4096"`

	Keys strictyaml.Keys `yaml:"-"`
}

// Storage says where state lies.
type Storage struct {
	// Path is the folder of the state; the flag --storage.path wins over it.
	Path string `yaml:"path" bounds:"0,4096"`
}

// maxRuleCPU is more than any rule can take.
const maxRuleCPU = 1024

// Default is what an empty file means.
func Default() *Config {
	return &Config{
		Global:  Global{BlindAfter: DefaultBlindAfter, Identity: rules.DefaultIdentity},
		Rules:   RulesConfig{Shipped: true},
		Limits:  Limits{ActiveAlerts: 1000, Keys: 10000, Fingerprints: 32768, RuleCPU: 0.2},
		Storage: Storage{Path: DefaultStorage},
	}
}

// Path returns the name of the file that the configuration was read from.
func (c *Config) Path() string { return c.file }

// Read reads and checks a configuration file. The error lists every
// problem of the file. It does not open what the file names.
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

// addressPath is what follows the host of an address that is a value of `url`.
var addressPath = regexp.MustCompile(`((?:\b|_)url:\s*["']?(?:https?://)?[^/?\s"'{}]+)[/?][^\s"'{},]+`)

// endpointParams are the parameters of OAuth2, on one line.
var endpointParams = regexp.MustCompile(`(\bendpoint_params:\s*)\{[^}]*\}?`)

// Parse decodes a configuration and makes its paths absolute or relative
// to the working folder.
func Parse(file string, data []byte) (*Config, strictyaml.Problems) {
	cfg := Default()
	cfg.file = file
	problems := strictyaml.Decode(file, data, cfg, strictyaml.Options{})
	problems = append(problems, cfg.check()...)
	problems.Sort()
	// A problem shows its line, and the line may hold a password, or the address
	// of a webhook, which is one.
	hide := redact.New(nil)
	for i := range problems {
		problems[i].Snippet = endpointParams.ReplaceAllString(problems[i].Snippet, "$1"+secretText)
		problems[i].Snippet = hide.String(addressPath.ReplaceAllString(problems[i].Snippet, "$1/"+secretText))
		problems[i].Message = hide.String(problems[i].Message)
	}
	cfg.resolvePaths(filepath.Dir(file))
	return cfg, problems
}

// any reports whether there is a source.
func (s SourcesConfig) any() bool {
	return s.Kubelet != nil || len(s.Kubernetes) > 0 || len(s.Machines) > 0 || len(s.Files) > 0 || s.Stdin != nil || len(s.Loki) > 0 || s.Agents != nil
}

// resolvePaths makes the paths of a file relative to its folder.
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
	if c.Keys.Has("storage") {
		c.Storage.Path = join(c.Storage.Path)
	}
	for i, p := range c.Sources.Kubernetes {
		c.Sources.Kubernetes[i].Config.Kubeconfig = join(p.Config.Kubeconfig)
	}
	for i, p := range c.Sources.Machines {
		c.Sources.Machines[i].Config.Kubeconfig = join(p.Config.Kubeconfig)
	}
	for i, p := range c.Sinks.Webhook {
		c.Sinks.Webhook[i].Config.URLFile = join(p.Config.URLFile)
	}
	for _, h := range c.httpConfigs() {
		h.config.SetDirectory(dir)
	}
	if p := c.Sources.Agents; p != nil {
		p.Config.SetDirectory(dir)
	}
}

// Part is the configuration of one kind, checked by its own package, with
// problems placed at the key that they name.
type Part[T any] struct {
	Config T `yaml:",inline"`

	Keys strictyaml.Keys `yaml:"-"`
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (p *Part[T]) DecodeYAML(n *strictyaml.Node) {
	n.Decode(p)
	v, ok := any(p.Config).(interface{ Validate() error })
	if !ok || p.Keys.Damaged() || n.Kind() != strictyaml.Map {
		return
	}
	for _, err := range flatten(v.Validate()) {
		place(n, err)
	}
}

// place reports an error that begins with the name of a key, or of its kind and
// a key, at that key. What stands behind the last "; " is the fix.
func place(n *strictyaml.Node, err error) {
	message, fix, _ := cutLast(err.Error(), "; ")
	words := strings.FieldsFunc(message, func(r rune) bool { return r == ':' || r == ' ' })
	for _, word := range words[:min(2, len(words))] {
		for _, e := range n.Entries() {
			if e.Key == word || e.Key == word+"s" {
				e.Value.Error("bad-value", message, fix)
				return
			}
		}
	}
	n.Error("bad-value", message, fix)
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// flatten takes joined errors apart.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) || errors.Unwrap(err) != nil {
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, flatten(e)...)
	}
	return out
}

// Parts is one configuration of a kind, or a list of them.
type Parts[T any] []Part[T]

// DecodeYAML implements strictyaml.Unmarshaler.
func (ps *Parts[T]) DecodeYAML(n *strictyaml.Node) {
	if n.Kind() != strictyaml.List {
		var p Part[T]
		p.DecodeYAML(n)
		*ps = Parts[T]{p}
		return
	}
	for _, item := range n.Items() {
		var p Part[T]
		p.DecodeYAML(item)
		*ps = append(*ps, p)
	}
}

// Configs returns what is configured without where it stands.
func (ps Parts[T]) Configs() []T {
	out := make([]T, len(ps))
	for i, p := range ps {
		out[i] = p.Config
	}
	return slices.Clip(out)
}
