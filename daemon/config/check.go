package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"

	"github.com/prometheus/common/model"

	"crowsnest/agent/client"
	"crowsnest/agent/server"
	"crowsnest/daemon/component"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/rules/namespaces"
	"crowsnest/strictyaml"
)

// check finds the problems that sources and sinks do not find in their own settings.
func (c *Config) check() strictyaml.Problems {
	if c.Keys.At.IsZero() {
		return nil // the file could not be parsed
	}
	var k checker
	c.checkGlobal(&k)
	if len(c.Sources.All) == 0 && !c.Keys.Broken("sources") && (c.Keys.Has("sources") || c.Keys.Missing("sources")) {
		k.add(c.Keys.Key("sources"), "no-source", "no source of logs is configured", "add one, such as `sources: {kubelet: {}}`")
	}
	c.checkNames(&k)
	c.checkNamespaces(&k)
	c.checkStages(&k)
	c.checkSentinel(&k)
	c.checkWeb(&k)
	c.checkPair(&k)
	for i, p := range c.Redaction.Patterns {
		if _, err := regexp.Compile(p); err != nil {
			k.add(c.Redaction.Keys.Item("patterns", i), "bad-regex", fmt.Sprintf("pattern %q: %v", p, err), "use the syntax of RE2")
		}
	}
	return k.problems
}

type checker struct{ problems strictyaml.Problems }

func (k *checker) add(at strictyaml.Pos, check, message, fix string) {
	k.problems = append(k.problems, at.Problem(strictyaml.Error, check, message, fix))
}

var ownLabels = []string{"alertname", "severity", "resolves", "overflow"}

func (c *Config) checkGlobal(k *checker) {
	keys := c.Global.Keys
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
			k.add(keys.EntryKey("external_labels", name), "label-name", fmt.Sprintf("%q is not a label name", name), "use letters, digits and _, and no digit first")
		case slices.Contains(ownLabels, name):
			k.add(keys.EntryKey("external_labels", name), "label-name", fmt.Sprintf("label %s belongs to the rules", name), "use another name")
		case value == "" || len(value) > 256:
			k.add(keys.EntryValue("external_labels", name), "bad-value", fmt.Sprintf("the value of label %s has %d bytes", name, len(value)), "use 1 to 256 bytes, or remove the label")
		}
	}
}

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
			k.add(keys.Item("identity", i), "label-name", fmt.Sprintf("%q is not a label name", name), "use letters, digits and _, and no digit first")
		case slices.Contains(ownLabels, name):
			k.add(keys.Item("identity", i), "label-name", fmt.Sprintf("label %s belongs to the rules", name), "use a label of streams, such as cluster")
		case slices.Contains(names[:i], name):
			k.add(keys.Item("identity", i), "duplicate-name", fmt.Sprintf("label %s is named twice", name), "remove one")
		case slices.Contains(matcher.DefaultIgnoreLabels, name), c.ignored(name):
			k.add(keys.Item("identity", i), "bad-value", fmt.Sprintf("label %s is not part of the identity of a stream: lines that differ only in it count as one line", name), "use another label, or remove it from ignore_labels of the Loki source")
		}
	}
}

// ignored reports whether a source excludes a label from the identity of its streams.
func (c *Config) ignored(name string) bool {
	return slices.ContainsFunc(c.streams(), func(l component.Labels) bool { return slices.Contains(l.Ignored, name) })
}

// CheckExternalURL checks an address of the pages.
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

// checkNamespaces checks each entry of the list of namespaces, then the whole list.
func (c *Config) checkNamespaces(k *checker) {
	const key = "infrastructure_namespaces"
	keys, good := c.Rules.Keys, !c.Rules.Keys.Broken(key)
	report := func(at strictyaml.Pos, err error) {
		if good = good && err == nil; err != nil {
			message, fix := component.SplitFix(err.Error())
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

// Namespaces returns the effective list of infrastructure namespaces.
func (c *Config) Namespaces() (*rules.Namespaces, error) {
	return namespaces.Parse(c.Rules.InfrastructureNamespaces)
}

// checkNames finds sources, and sinks, of the same name.
func (c *Config) checkNames(k *checker) {
	check := func(what string, parts component.Parts) {
		seen := map[string]bool{}
		for _, p := range parts.All {
			names := []string{p.Name}
			if p.Kind.Names != nil {
				names = p.Kind.Names(p)
			}
			for _, name := range names {
				if seen[name] {
					k.add(p.Keys.Value("name"), "duplicate-name", fmt.Sprintf("two %s have the name %q", what, name), "give each a name of its own with `name:`")
				}
				seen[name] = true
			}
		}
	}
	check("sinks", c.Sinks)
	check("sources", c.Sources)
}

// checkStages finds settings that contradict agent mode.
func (c *Config) checkStages(k *checker) {
	if len(component.Of[client.Config](c.Sinks)) == 0 {
		return
	}
	for _, p := range c.Sources.All {
		if _, agents := p.Settings.(*server.Config); agents {
			k.add(p.Keys.At, "bad-value", "agents: an agent cannot take the hits of other agents", "remove sources.agents, or sinks.upstream to make this an aggregator")
		}
	}
	if c.Rules.Scope != "" {
		k.add(c.Rules.Keys.Value("scope"), "bad-value", "scope: with sinks.upstream the aggregator concludes, from all rules", "remove the key")
	}
}
