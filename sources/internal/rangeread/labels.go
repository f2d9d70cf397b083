package rangeread

import (
	"maps"
	"slices"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/rules/selector"
)

type labelNames struct {
	renamed []string          // names in the server of the labels that the configuration renames, sorted
	to      map[string]string // names in rules of the renamed labels; the key is the name in the server
	tenant  string            // tenant of the streams; "" if streams have no tenant label
}

func newNaming(cfg Config, tenant string) labelNames {
	n := labelNames{renamed: slices.Sorted(maps.Keys(cfg.Labels)), to: cfg.Labels}
	if len(cfg.Tenants) > 1 {
		n.tenant = tenant
	}
	return n
}

// labels returns the labels of a stream. The following values are possible for each name, and the first one that exists
// is used: a label that is renamed to the name, the label with the name, a field that is renamed to the name, and, if
// wanted contains the name, the field with the name.
func (n labelNames) labels(stream, meta []Pair, wanted map[string]bool) matcher.Labels {
	out := make(matcher.Labels, len(stream)+1)
	n.addLabels(out, stream, nil)
	n.addLabels(out, meta, wanted)
	if n.tenant != "" {
		out[tenantLabel] = n.tenant
	}
	return out
}

// addLabels adds the labels that out lacks. wanted are the names that are accepted if the configuration does not rename
// them; nil means all. The namespace shows the origin of a line, but fields may hold content of the line itself.
// Therefore addLabels takes the namespace from fields only if the configuration renames a field to it.
func (n labelNames) addLabels(out matcher.Labels, from []Pair, wanted map[string]bool) {
	for _, name := range n.renamed {
		i := slices.IndexFunc(from, func(p Pair) bool { return string(p.Name) == name })
		if i >= 0 && len(from[i].Value) > 0 && out[n.to[name]] == "" {
			out[n.to[name]] = string(from[i].Value)
		}
	}
	for _, p := range from {
		name := string(p.Name)
		if _, renamed := n.to[name]; !renamed && out[name] == "" && len(p.Value) > 0 && (wanted == nil || wanted[name] && name != "namespace") {
			out[name] = string(p.Value)
		}
	}
}

func (n labelNames) isUseful(name []byte, wanted map[string]bool) bool {
	_, renamed := n.to[string(name)]
	return renamed || wanted[string(name)] && string(name) != "namespace"
}

// storedName returns the name in the server of a label that rules use. It returns "" if streams do
// not have such a label.
func (n labelNames) storedName(name string) string {
	for _, from := range n.renamed {
		if n.to[from] == name {
			return from
		}
	}
	if _, renamed := n.to[name]; renamed || n.tenant != "" && name == tenantLabel {
		return ""
	}
	return name
}

func (n labelNames) mentionsLabel(sel rules.Selector, name string) bool {
	return slices.Contains(slices.Collect(maps.Values(n.to)), name) ||
		slices.ContainsFunc(sel.Matchers(), func(m selector.Matcher) bool { return m.Name == n.storedName(name) })
}

// commonLabels returns the labels that every stream has according to the selector sel.
func (n labelNames) commonLabels(sel rules.Selector) matcher.Labels {
	stated := map[string]string{}
	for _, m := range sel.Matchers() {
		if m.Op == selector.Equal && m.Value != "" {
			stated[m.Name] = m.Value
		}
	}
	out := matcher.Labels{}
	names := slices.Collect(maps.Keys(stated))
	for _, to := range n.to {
		names = append(names, to)
	}
	for _, name := range names {
		if v := stated[n.storedName(name)]; v != "" {
			out[name] = v
		}
	}
	if n.tenant != "" {
		out[tenantLabel] = n.tenant
	}
	return out
}
