package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/rules/namespaces"
	lokisource "crowsnest/sources/loki"
	"crowsnest/strictyaml"
)

// check finds what is wrong beside the parts that check themselves.
func (c *Config) check() strictyaml.Problems {
	if c.Keys.At.IsZero() {
		return nil // the file could not be parsed
	}
	var k checker
	c.checkGlobal(&k)
	if !c.Sources.any() && !c.Keys.Broken("sources") && (c.Keys.Has("sources") || c.Keys.Missing("sources")) {
		k.add(c.Keys.Key("sources"), "no-source", "no source of logs is configured", "add one, such as `sources: {kubelet: {}}`")
	}
	c.checkNames(&k)
	c.checkNamespaces(&k)
	c.checkStages(&k)
	for i, p := range c.Redaction.Patterns {
		if _, err := regexp.Compile(p); err != nil {
			k.add(c.Redaction.Keys.Item("patterns", i), "bad-regex", fmt.Sprintf("pattern %q: %v", p, err), "use the syntax of RE2")
		}
	}
	if !c.Keys.Broken("limits") {
		k.atLeastOne(c.Keys, "active_alerts", c.Limits.ActiveAlerts)
		if c.Limits.AlertsPerNamespace != 0 {
			k.atLeastOne(c.Keys, "alerts_per_namespace", c.Limits.AlertsPerNamespace)
		}
		k.atLeastOne(c.Keys, "keys", c.Limits.Keys)
		k.atLeastOne(c.Keys, "fingerprints", c.Limits.Fingerprints)
		if share := c.Limits.RuleCPU; !(share >= 0 && share <= maxRuleCPU) {
			k.add(c.Keys.EntryValue("limits", "rule_cpu"), "bad-value", fmt.Sprintf("limits: rule_cpu is %g", share),
				"use the share of one CPU that a rule may take for a minute, such as 0.2; 0 turns the limit off")
		}
	}
	return k.problems
}

// checker collects problems.
type checker struct{ problems strictyaml.Problems }

func (k *checker) add(at strictyaml.Pos, check, message, fix string) {
	k.problems = append(k.problems, at.Problem(strictyaml.Error, check, message, fix))
}

func (k *checker) atLeastOne(keys strictyaml.Keys, name string, value int) {
	if value < 1 {
		k.add(keys.EntryValue("limits", name), "bad-value", fmt.Sprintf("limits: %s is %d", name, value), "use a number above 0, or remove the key")
	}
}

// ownLabels are those that rules decide.
var ownLabels = []string{"alertname", "severity", "resolves", "overflow"}

func (c *Config) checkGlobal(k *checker) {
	keys := c.Global.Keys
	if d := c.Global.BlindAfter; d < time.Second || d > 24*time.Hour {
		k.add(keys.Value("blind_after"), "bad-value", fmt.Sprintf("blind_after: %s is not between 1s and 24h", d), "use 5m, or remove the key")
	}
	if u := c.Global.ExternalURL; u != "" {
		if err := CheckExternalURL(u); err != nil {
			k.add(keys.Value("external_url"), "bad-value", err.Error(), "write it like https://crowsnest.example.org")
		}
	}
	c.checkIdentity(k)
	if keys.Broken("external_labels") {
		return
	}
	for name, value := range c.Global.ExternalLabels {
		switch {
		case !model.LegacyValidation.IsValidLabelName(name):
			k.add(keys.EntryKey("external_labels", name), "label-name", fmt.Sprintf("%q is no name of a label", name), "use letters, digits and _, and no digit first")
		case slices.Contains(ownLabels, name):
			k.add(keys.EntryKey("external_labels", name), "label-name", fmt.Sprintf("label %s belongs to the rules", name), "use another name")
		case value == "" || len(value) > 256:
			k.add(keys.EntryValue("external_labels", name), "bad-value", fmt.Sprintf("the value of label %s has %d bytes", name, len(value)), "use 1 to 256 bytes, or remove the label")
		}
	}
}

// checkIdentity checks the labels that belong to every key.
func (c *Config) checkIdentity(k *checker) {
	keys := c.Global.Keys
	if keys.Broken("identity") {
		return
	}
	names := c.Global.Identity
	if len(names) > rules.MaxIdentity {
		k.add(keys.Key("identity"), "bad-value", fmt.Sprintf("identity has %d labels, at most %d are allowed", len(names), rules.MaxIdentity), "name the labels that tell clusters apart, and no others")
		return
	}
	for i, name := range names {
		switch {
		case !model.LegacyValidation.IsValidLabelName(name):
			k.add(keys.Item("identity", i), "label-name", fmt.Sprintf("%q is no name of a label", name), "use letters, digits and _, and no digit first")
		case slices.Contains(ownLabels, name):
			k.add(keys.Item("identity", i), "label-name", fmt.Sprintf("label %s belongs to the rules", name), "use a label of streams, such as cluster")
		case slices.Contains(names[:i], name):
			k.add(keys.Item("identity", i), "duplicate-name", fmt.Sprintf("label %s is named twice", name), "remove one")
		case slices.Contains(matcher.DefaultIgnoreLabels, name), c.lokiIgnores(name):
			k.add(keys.Item("identity", i), "bad-value", fmt.Sprintf("label %s is not part of the identity of a stream: lines that differ only in it count as one line", name), "use another label, or remove it from ignore_labels of the Loki source")
		}
	}
}

func (c *Config) lokiIgnores(name string) bool {
	return slices.ContainsFunc(c.Sources.Loki, func(p Part[lokisource.Config]) bool { return slices.Contains(p.Config.IgnoreLabels, name) })
}

// CheckExternalURL reports what is wrong with an address of the pages.
func CheckExternalURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("external_url cannot be read as an address")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("external_url is not an absolute http or https address")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("external_url has more than scheme, host and path")
	}
	return nil
}

// checkNamespaces checks each entry of the list of namespaces, then the whole.
func (c *Config) checkNamespaces(k *checker) {
	const key = "infrastructure_namespaces"
	keys, good := c.Rules.Keys, !c.Rules.Keys.Broken(key)
	report := func(at strictyaml.Pos, err error) {
		if good = good && err == nil; err != nil {
			message, fix, _ := cutLast(err.Error(), "; ")
			k.add(at, "bad-value", key+": "+message, fix)
		}
	}
	if good && keys.Has(key) && len(c.Rules.InfrastructureNamespaces) == 0 {
		report(keys.Key(key), errors.New("the list is empty; list a namespace, or remove the key for the built-in list"))
	}
	for i, entry := range c.Rules.InfrastructureNamespaces {
		report(keys.Item(key, i), namespaces.Check(entry))
	}
	if good {
		_, err := c.Namespaces()
		report(keys.Key(key), err)
	}
}

// Namespaces returns the list that is in force.
func (c *Config) Namespaces() (*rules.Namespaces, error) {
	return namespaces.Parse(c.Rules.InfrastructureNamespaces)
}

// checkNames finds two sources or two sinks of one name.
func (c *Config) checkNames(k *checker) {
	sinkNames, sourceNames := map[string]bool{}, map[string]bool{}
	taken := func(seen map[string]bool, what, name string, at strictyaml.Pos) {
		if seen[name] {
			k.add(at, "duplicate-name", fmt.Sprintf("two %s have the name %q", what, name), "give each a name of its own with `name:`")
		}
		seen[name] = true
	}
	for i, p := range c.Sinks.Alertmanager {
		taken(sinkNames, "sinks", Numbered(p.Config.Name, "alertmanager", i), p.Keys.Value("name"))
	}
	for i, p := range c.Sinks.Loki {
		taken(sinkNames, "sinks", Numbered(p.Config.Name, "loki", i), p.Keys.Value("name"))
	}
	for i, p := range c.Sinks.Webhook {
		taken(sinkNames, "sinks", Numbered(p.Config.Name, "webhook", i), p.Keys.Value("name"))
	}
	if p := c.Sinks.Stdout; p != nil {
		taken(sinkNames, "sinks", Numbered(p.Config.Name, "stdout", 0), p.Keys.Value("name"))
	}
	if p := c.Sources.Kubelet; p != nil {
		taken(sourceNames, "sources", Numbered(p.Config.Name, "kubelet", 0), p.Keys.Value("name"))
	}
	for i, p := range c.Sources.Kubernetes {
		taken(sourceNames, "sources", Numbered(p.Config.Name, "kubernetes", i), p.Keys.Value("name"))
	}
	for i, p := range c.Sources.Machines {
		taken(sourceNames, "sources", Numbered(p.Config.Name, "machines", i), p.Keys.Value("name"))
	}
	for i, p := range c.Sources.Files {
		taken(sourceNames, "sources", Numbered(p.Config.Name, "files", i), p.Keys.Value("name"))
	}
	if p := c.Sources.Stdin; p != nil {
		taken(sourceNames, "sources", Numbered(p.Config.Name, "stdin", 0), p.Keys.Value("name"))
	}
	for i, p := range c.Sources.Loki {
		for _, s := range lokisource.New(LokiNamed(p.Config, i)) {
			taken(sourceNames, "sources", s.Name(), p.Keys.Value("name"))
		}
	}
	if p := c.Sources.Agents; p != nil {
		taken(sourceNames, "sources", Numbered(p.Config.Name, "agents", 0), p.Keys.Value("name"))
	}
}

// checkStages finds what does not go together.
func (c *Config) checkStages(k *checker) {
	if c.Sinks.Upstream == nil {
		return
	}
	if p := c.Sources.Agents; p != nil {
		k.add(p.Keys.At, "bad-value", "agents: an agent cannot take the hits of other agents", "remove sources.agents, or sinks.upstream to make this an aggregator")
	}
	if c.Rules.Scope != "" {
		k.add(c.Rules.Keys.Value("scope"), "bad-value", "scope: with sinks.upstream the aggregator concludes, from all rules", "remove the key")
	}
}
