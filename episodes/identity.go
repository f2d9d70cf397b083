package episodes

import (
	"hash/fnv"
	"maps"
	"slices"

	"crowsnest/episodes/internal/intake"
	"crowsnest/internal/text"
	"crowsnest/rules"
)

// computeLabels computes the labels of the episode, which identify its alert.
func (ep *episode) computeLabels() {
	r, names := ep.rs.rule, ep.rs.cfg.Identity
	by := map[string]string{}
	for i, name := range r.By {
		by[name] = string(ep.values[i])
	}
	ep.labels = ep.rs.renderLabels(r, by)
	if !ep.nameless {
		ep.who.AddTo(ep.labels, names)
	}
	ep.print = fingerprintOf(ep.labels)
	ep.setApart(names)
}

// renderLabels executes the templates of a rule's labels.
func (c *common) renderLabels(r *rules.Rule, key map[string]string) map[string]string {
	labels := maps.Clone(key)
	for _, l := range r.Labels {
		labels[l.Name] = text.Truncate(c.renderer.RenderLabel(l.Template, rules.TemplateData{Labels: key}), intake.MaxValue)
	}
	labels["alertname"] = r.Alert
	labels["severity"] = string(r.Severity)
	labels["resolves"] = r.Resolves()
	maps.DeleteFunc(labels, func(_, v string) bool { return v == "" })
	return labels
}

// FingerprintOf returns the fingerprint of an alert with these labels.
func FingerprintOf(labels map[string]string) Fingerprint { return fingerprintOf(labels) }

// fingerprintOf hashes labels in order of their names.
func fingerprintOf(labels map[string]string) Fingerprint {
	h := fnv.New64a()
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		h.Write([]byte(name))
		h.Write([]byte{0xff})
		h.Write([]byte(labels[name]))
		h.Write([]byte{0xff})
	}
	return Fingerprint(h.Sum64())
}

// setApart adds labels to an episode if another open episode of its rule has the same labels
// and a different key. That happens if one takes the value of an identity label from a capture
// in `by`, and the other one from its stream.
func (ep *episode) setApart(names []string) {
	same := func(o *episode) bool { return o != ep && o.print == ep.print }
	if !ep.rs.ambiguous || !slices.ContainsFunc(slices.Collect(maps.Values(ep.rs.open)), same) {
		return
	}
	for i, name := range names {
		if ep.labels[name] == "" {
			continue
		}
		ep.labels["stream_"+name] = "none"
		if values := ep.who.Values(); values != nil && values[i] != "" {
			ep.labels["stream_"+name] = values[i]
		}
	}
	ep.print = fingerprintOf(ep.labels)
}
