package loki

import (
	"maps"
	"slices"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/rules/selector"
)

type naming struct {
	renamed []string          // renamed labels, by their names in Loki, sorted
	to      map[string]string // their names in rules
	tenant  string            // "": streams have no tenant label
}

func newNaming(cfg Config, tenant string) naming {
	n := naming{renamed: slices.Sorted(maps.Keys(cfg.Labels)), to: cfg.Labels}
	if len(cfg.Tenants) > 1 {
		n.tenant = tenant
	}
	return n
}

// labels returns the labels of a stream. The value of each name is the first of: a
// label renamed to it, the label of that name, structured metadata renamed to it, and
// structured metadata of that name if it is in wanted.
func (n naming) labels(stream, meta []pair, wanted map[string]bool) matcher.Labels {
	out := make(matcher.Labels, len(stream)+1)
	n.add(out, stream, nil)
	n.add(out, meta, wanted)
	if n.tenant != "" {
		out[tenantLabel] = n.tenant
	}
	return out
}

// add adds missing labels. wanted are the names accepted without a renaming; nil means all.
// The namespace is the origin of a line, but structured metadata may hold content of
// the line itself: add takes the namespace from metadata only under a name that the
// configuration maps to it.
func (n naming) add(out matcher.Labels, from []pair, wanted map[string]bool) {
	for _, name := range n.renamed {
		if v := find(from, name); len(v) > 0 && out[n.to[name]] == "" {
			out[n.to[name]] = string(v)
		}
	}
	for _, p := range from {
		name := string(p.name)
		if _, renamed := n.to[name]; !renamed && out[name] == "" && len(p.value) > 0 && (wanted == nil || wanted[name] && name != "namespace") {
			out[name] = string(p.value)
		}
	}
}

// useful reports whether structured metadata of this name can become a label.
func (n naming) useful(name []byte, wanted map[string]bool) bool {
	_, renamed := n.to[string(name)]
	return renamed || wanted[string(name)] && string(name) != "namespace"
}

func find(pairs []pair, name string) []byte {
	for _, p := range pairs {
		if string(p.name) == name {
			return p.value
		}
	}
	return nil
}

// provider returns the label in Loki that provides a name in rules. "" means that no
// label of streams determines it.
func (n naming) provider(name string) string {
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

// mentions reports whether the configured selector or a renaming mentions a name in rules.
func (n naming) mentions(sel rules.Selector, name string) bool {
	return slices.Contains(slices.Collect(maps.Values(n.to)), name) ||
		slices.ContainsFunc(sel.Matchers(), func(m selector.Matcher) bool { return m.Name == n.provider(name) })
}

// known returns the labels that every stream has because of the configured selector.
func (n naming) known(sel rules.Selector) matcher.Labels {
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
		if v := stated[n.provider(name)]; v != "" {
			out[name] = v
		}
	}
	if n.tenant != "" {
		out[tenantLabel] = n.tenant
	}
	return out
}
