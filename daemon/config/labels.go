package config

import "maps"

// ApplyTo adds the global labels and the global address to a sink's settings. The sink's own
// values take precedence.
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
