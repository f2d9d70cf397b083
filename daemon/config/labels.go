package config

import "maps"

// Into adds the global labels and address to a sink's settings; the sink's own values
// win.
func (g Global) Into(labels *map[string]string, url *string) {
	*labels = Merged(g.ExternalLabels, *labels)
	if *url == "" {
		*url = g.ExternalURL
	}
}

// Merged returns the entries of a and b; those of b win. It returns nil for none.
func Merged(a, b map[string]string) map[string]string {
	if len(a)+len(b) == 0 {
		return nil
	}
	out := map[string]string{}
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}
