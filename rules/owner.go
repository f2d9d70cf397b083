package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/internal/lazyre"
	"crowsnest/internal/strictyaml"
	"crowsnest/rules/selector"
)

// A pack with an owner (File.Namespace) comes from somebody who may change only one namespace of a cluster. Its rules
// read only streams of that namespace, and their alerts always have the label `namespace` with that name. The file cannot change
// other rules, and has a fraction of the limits of a file of the operator.

// Limits of the packs of one namespace.
const (
	maxOwnedInstructions = maxInstructions / 10
	maxOwnedClasses      = maxClasses / 10
	// MaxOwnedRules is the maximum number of rules in the packs of one namespace together.
	MaxOwnedRules = 100
	// MaxOwnedLineTime is the maximum of the sum of Rule.MaxLineTime over the rules of one namespace.
	MaxOwnedLineTime = 20 * maxLineCost
	// MaxOwnedTestTime is the maximum of the sum of TestTime over the packs of one namespace.
	MaxOwnedTestTime = 2 * time.Second
	// MaxOwnedBytes is the maximum size of the packs of one namespace together, and MaxOwnedFiles their maximum number.
	MaxOwnedBytes = 256 << 10
	MaxOwnedFiles = 20
)

// ownedName matches the names of packs and alerts that an owner may choose. Other names could look like names of other
// owners, or become links where the alerts are shown.
var ownedName = lazyre.New(`^[A-Za-z0-9_-]+$`)

// OwnedPrefix is the prefix in the names of files with an owner, as in configmap:team-a/rules/web.yaml.
const OwnedPrefix = "configmap:"

// Cluster returns the cluster of the namespace that owns the file, or "" if it is not known.
func (d *Document) Cluster() string { return d.cluster }

// Namespace returns the namespace that owns the file, or "" for a file of the operator.
func (d *Document) Namespace() string { return d.namespace }

func ownedPackName(namespace, pack string) string {
	if namespace == "" || pack == "" {
		return pack
	}
	return namespace + "/" + pack
}

// RuleCount returns the number of rules in the file.
func (d *Document) RuleCount() int { return len(d.rules) }

// Rules returns the valid rules of the file, before overrides are applied. The caller must not change them.
func (d *Document) Rules() []*Rule {
	var out []*Rule
	for _, r := range d.rules {
		if r.rule != nil {
			out = append(out, r.rule)
		}
	}
	return out
}

// MaxLineTime returns the sum of Rule.MaxLineTime over the valid rules of the file.
func (d *Document) MaxLineTime() (sum time.Duration) {
	for _, r := range d.Rules() {
		sum += r.MaxLineTime()
	}
	return sum
}

// refuseOwnedOverrides reports that a file of a namespace has overrides.
func (d *Document) refuseOwnedOverrides(at strictyaml.Pos) {
	d.addError(at, "owner", fmt.Sprintf("a file of namespace %s cannot have overrides: they change rules of others", d.namespace), "write the file as a pack with rules of your own")
}

// bindSelector restricts a selector to the owner's namespace, and to the owner's cluster if it is known. A stream
// without the label cluster counts as a stream of that cluster. bindSelector reports a condition on the namespace that
// is not an equality with the owner's namespace, and a condition that only streams of other clusters satisfy.
func (c *matcherCompiler) bindSelector(s Selector, at strictyaml.Pos, name string) (_ Selector, ok bool) {
	own := ""
	for _, m := range s.Matchers() {
		if m.Name != "namespace" {
			continue
		}
		if m.Op != selector.Equal || m.Value != c.namespace {
			c.addError(at, "owner", fmt.Sprintf("%s has %s, but a pack of namespace %s reads only streams of this namespace", name, m, c.namespace),
				fmt.Sprintf("write namespace=%q, or remove the condition, because crowsnest adds the right one", c.namespace))
			return s, false
		}
		own = m.Value
	}
	if own == "" {
		s = s.WithEqual("namespace", c.namespace)
	}
	if c.cluster == "" {
		return s, true
	}
	for _, m := range s.Matchers() {
		if m.Name == "cluster" && !m.Matches(c.cluster) && !m.Matches("") {
			c.addError(at, "owner", fmt.Sprintf("%s has %s, but a pack of namespace %s reads only streams of cluster %s", name, m, c.namespace, c.cluster),
				"remove the condition")
			return s, false
		}
	}
	s, err := s.WithEqualOrAbsent("cluster", c.cluster)
	if err != nil {
		c.addError(at, "owner", fmt.Sprintf("%s cannot be restricted to cluster %s: %v", name, c.cluster, err), "ask the operator to shorten the name of the cluster")
	}
	return s, err == nil
}

// checkOwner reports what a rule of an owner must not state. It runs after the parts of the rule were compiled.
func (c *compiler) checkOwner() {
	if c.form.namespace == "" {
		return
	}
	if c.rule.Infrastructure {
		c.addError(c.Keys.Value("origin"), "owner", "a pack of a namespace cannot have `origin: infrastructure`", "remove the key: the rules read only namespace "+c.form.namespace)
	}
	if c.Keys.Has("verified") {
		c.addError(c.Keys.Key("verified"), "owner", "a pack of a namespace cannot have `verified`, which is about the shipped rules", "remove the key")
	}
	if c.Alert != "" && !ownedName.MatchString(c.Alert) {
		c.addError(c.Keys.Value("alert"), "owner", "the name of an alert in a pack of a namespace has only ASCII letters, digits, _ and -", "choose a name in CamelCase")
	}
	if strings.HasPrefix(foldName(c.Alert), "crowsnest") {
		c.addError(c.Keys.Value("alert"), "owner", "names that start with Crowsnest are reserved for alerts about crowsnest itself", "choose another name")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		if isOwnersLabel(name) {
			c.addError(c.labelKeys[name].EntryKey("labels", name), "owner", fmt.Sprintf("a pack of a namespace cannot set the label `%s`: it comes from the stream", name), "remove it here")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Annotations)) {
		if name == "origin" || name == "line" || name == "first_line" || strings.HasPrefix(name, "cause_") || strings.HasSuffix(name, "_url") {
			c.addError(c.annotationKeys[name].EntryKey("annotations", name), "owner", fmt.Sprintf("a pack of a namespace cannot set the annotation `%s`", name),
				"use another name, or `runbook_url` of `remediation` for a link")
		}
	}
	for _, w := range c.written {
		for _, name := range possibleCaptures(w.compiled) {
			if isOwnersLabel(name) {
				c.addError(w.keys.Pos, "owner", fmt.Sprintf("%s captures `%s` from the line, but this label comes from the stream", w.name, name), "capture it under another name, such as object_"+name)
			}
		}
	}
}

// isOwnersLabel reports whether only the stream may set a label of an alert of an owner.
func isOwnersLabel(name string) bool {
	return name == "namespace" || slices.Contains(DefaultIdentity, name)
}

// dropForeignCauses removes causes that are rules of another namespace. A rule of the operator has only causes that are
// rules of the operator, so no namespace can suppress the operator's alerts with a rule of the right name.
func (b *builder) dropForeignCauses() {
	owners := map[string]string{}
	for _, r := range b.rules {
		if !r.duplicate {
			owners[r.alert] = r.doc.namespace
		}
	}
	for _, r := range b.rules {
		foreign := func(c Cause) bool { return owners[c.Alert] != "" && owners[c.Alert] != r.doc.namespace }
		if r.rule == nil || !slices.ContainsFunc(r.rule.Causes, foreign) {
			continue
		}
		own := *r.rule
		own.Causes = slices.DeleteFunc(slices.Clone(own.Causes), foreign)
		r.rule = &own
	}
}

// isOwned reports whether a namespace owns the file.
func (b *builder) isOwned(file string) bool {
	return slices.ContainsFunc(b.docs, func(d *Document) bool { return d.file == file && d.namespace != "" })
}
