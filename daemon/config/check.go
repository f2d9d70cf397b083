package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"

	"crowsnest/agent/client"
	"crowsnest/agent/server"
	"crowsnest/daemon/component"
	"crowsnest/internal/strictyaml"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/rules/namespaces"
	"crowsnest/sources/otlp"
)

// checkAll finds problems that sources and sinks cannot find in their own settings.
func (c *Config) checkAll() strictyaml.Problems {
	if c.Keys.Pos.IsZero() {
		return nil // the file could not be parsed
	}
	var k checker
	c.checkGlobal(&k)
	if len(c.Sources.All) == 0 && !c.Keys.HasError("sources") && (c.Keys.Has("sources") || c.Keys.Lacks("sources")) {
		k.addProblem(c.Keys.Key("sources"), "no-source", "no source of logs is configured", "add one, such as `sources: {kubelet: {}}`")
	}
	c.checkNames(&k)
	c.checkNamespaces(&k)
	c.checkConfigMaps(&k)
	c.checkStages(&k)
	c.checkSentinel(&k)
	c.checkWeb(&k)
	c.checkPair(&k)
	for i, p := range c.Redaction.Patterns {
		if _, err := regexp.Compile(p); err != nil {
			k.addProblem(c.Redaction.Keys.Item("patterns", i), "bad-regex", fmt.Sprintf("pattern %q: %v", p, err), "use the syntax of RE2")
		}
	}
	return k.problems
}

type checker struct{ problems strictyaml.Problems }

func (k *checker) addProblem(pos strictyaml.Pos, check, message, fix string) {
	k.problems = append(k.problems, pos.Problem(strictyaml.Error, check, message, fix))
}

// refusesLabel reports a name that is no label name, or that rules set. instead is the fix for the latter.
func (k *checker) refusesLabel(pos strictyaml.Pos, name, instead string) bool {
	switch {
	case !model.LegacyValidation.IsValidLabelName(name):
		k.addProblem(pos, "label-name", fmt.Sprintf("%q is not a label name", name), "use letters, digits and _, and no digit first")
	case slices.Contains([]string{"alertname", "severity", "resolves", "overflow"}, name):
		k.addProblem(pos, "label-name", fmt.Sprintf("label %s is reserved for labels that rules set", name), instead)
	default:
		return false
	}
	return true
}

func (c *Config) checkGlobal(k *checker) {
	keys := c.Global.Keys
	if u := c.Global.ExternalURL; u != "" {
		if err := CheckExternalURL(u); err != nil {
			k.addProblem(keys.Value("external_url"), "bad-value", err.Error(), "write it like https://crowsnest.example.org")
		}
	}
	c.checkIdentity(k)
	if keys.HasError("external_labels") {
		return
	}
	for name, value := range c.Global.ExternalLabels {
		switch pos := keys.EntryKey("external_labels", name); {
		case k.refusesLabel(pos, name, "use another name"):
		case value == "" || len(value) > 256:
			k.addProblem(keys.EntryValue("external_labels", name), "bad-value", fmt.Sprintf("the value of label %s has %d bytes", name, len(value)), "use 1 to 256 bytes, or remove the label")
		}
	}
}

func (c *Config) checkIdentity(k *checker) {
	keys := c.Global.Keys
	if keys.HasError("identity") {
		return
	}
	names := c.Global.Identity
	if len(names) > rules.MaxIdentity {
		k.addProblem(keys.Key("identity"), "bad-value", fmt.Sprintf("identity has %d labels, at most %d are allowed", len(names), rules.MaxIdentity), "list only the labels that distinguish clusters")
		return
	}
	for i, name := range names {
		switch pos := keys.Item("identity", i); {
		case k.refusesLabel(pos, name, "use a label of streams, such as cluster"):
		case slices.Contains(names[:i], name):
			k.addProblem(pos, "duplicate-name", fmt.Sprintf("label %s is named twice", name), "remove one")
		case slices.Contains(matcher.DefaultIgnoreLabels, name), c.ignoresLabel(name):
			k.addProblem(pos, "bad-value", fmt.Sprintf("label %s is not part of the identity of a stream: lines that differ only in it count as one line", name), "use another label, or remove it from ignore_labels of the Loki source")
		}
	}
}

func (c *Config) ignoresLabel(name string) bool {
	return slices.ContainsFunc(c.streamLabels(), func(l component.Labels) bool { return slices.Contains(l.Ignored, name) })
}

// CheckExternalURL checks the address of the pages.
func CheckExternalURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("external_url cannot be read as an address")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("external_url is not an absolute http or https address")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("external_url has a part other than scheme, host and path")
	}
	return nil
}

// checkNamespaces checks each entry of the list of namespaces, then the whole list.
func (c *Config) checkNamespaces(k *checker) {
	const key = "infrastructure_namespaces"
	keys, good := c.Rules.Keys, !c.Rules.Keys.HasError(key)
	report := func(pos strictyaml.Pos, err error) {
		if good = good && err == nil; err != nil {
			message, fix := component.SplitFix(err.Error())
			k.addProblem(pos, "bad-value", key+": "+message, fix)
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

func (c *Config) checkConfigMaps(k *checker) {
	m := c.Rules.ConfigMaps
	if m == nil || m.Keys.IsUnreadable() {
		return
	}
	if len(component.SettingsOf[client.Config](c.Sinks)) > 0 {
		k.addProblem(c.Rules.Keys.Key("config_maps"), "bad-value", "config_maps: an agent gets the packs of namespaces from its aggregator", "remove the key here, and set it in the configuration of the aggregator")
		return
	}
	if err := m.Validate(); err != nil && !m.Keys.HasError("selector") {
		message, fix := component.SplitFix(err.Error())
		at := c.Rules.Keys.Key("config_maps")
		if m.Keys.Has("selector") {
			at = m.Keys.Value("selector")
		}
		k.addProblem(at, "bad-value", "config_maps: "+message, fix)
	}
}

// Namespaces returns the effective list of infrastructure namespaces.
func (c *Config) Namespaces() (*rules.Namespaces, error) {
	return namespaces.Parse(c.Rules.InfrastructureNamespaces)
}

func (c *Config) checkNames(k *checker) {
	check := func(subject string, parts component.Parts) {
		seen := map[string]bool{}
		for _, p := range parts.All {
			names := []string{p.Name}
			if p.Kind.Names != nil {
				names = p.Kind.Names(p)
			}
			for _, name := range names {
				if seen[name] {
					k.addProblem(p.Keys.Value("name"), "duplicate-name", fmt.Sprintf("two %s have the name %q", subject, name), "give each a name of its own with `name:`")
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
	if len(component.SettingsOf[client.Config](c.Sinks)) == 0 {
		return
	}
	for _, p := range c.Sources.All {
		if _, agents := p.Settings.(*server.Config); agents {
			k.addProblem(p.Keys.Pos, "bad-value", "agents: an agent cannot accept hits from other agents", "remove sources.agents, or sinks.upstream to make this an aggregator")
		}
		if _, receives := p.Settings.(*otlp.Config); receives {
			k.addProblem(p.Keys.Pos, "bad-value", "otlp: an agent cannot acknowledge what collectors send, because the aggregator saves it", "move sources.otlp to the aggregator")
		}
	}
	if c.Rules.Scope != "" {
		k.addProblem(c.Rules.Keys.Value("scope"), "bad-value", "scope: scope has no effect on an agent, because the aggregator evaluates its hits with all rules", "remove the key")
	}
}

func (c *Config) checkPair(k *checker) {
	ha := c.HighAvailability
	if ha == nil || ha.Keys.IsUnreadable() {
		return
	}
	for _, err := range component.SplitErrors(ha.Validate()) {
		message, fix := component.SplitFix(err.Error())
		at := ha.Keys.Pos
		if key, _, named := strings.Cut(message, ":"); named && ha.Keys.Has(key) {
			at = ha.Keys.Value(key)
		}
		k.addProblem(at, "bad-value", message, fix)
	}
	if len(component.SettingsOf[client.Config](c.Sinks)) > 0 {
		k.addProblem(c.Keys.Key("high_availability"), "bad-value", "high_availability: an agent cannot have a standby, because it reads the logs of its own node", "remove the section, or sinks.upstream to make this an aggregator")
	}
	if c.Keys.Has("storage") && c.Storage.Path == "" {
		k.addProblem(c.Keys.Key("high_availability"), "bad-value", "high_availability: a standby keeps the state of the leader in storage.path, which is empty", "set storage.path")
	}
}
