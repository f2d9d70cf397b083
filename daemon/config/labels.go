package config

import (
	"fmt"
	"maps"

	lokisource "crowsnest/sources/loki"
)

// LokiNamed is the i-th Loki that is read.
func LokiNamed(cfg lokisource.Config, i int) lokisource.Config {
	cfg.Name = Numbered(cfg.Name, "loki", i)
	return cfg
}

// Into adds what concerns every sink to the settings of one.
func (g Global) Into(labels *map[string]string, url *string) {
	*labels = Merged(g.ExternalLabels, *labels)
	if *url == "" {
		*url = g.ExternalURL
	}
}

// Merged returns a with the entries of b, which win.
func Merged(a, b map[string]string) map[string]string {
	if len(a)+len(b) == 0 {
		return nil
	}
	out := maps.Clone(a)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, b)
	return out
}

// Numbered is the name of the i-th of a kind, from 0.
func Numbered(name, kind string, i int) string {
	switch {
	case name != "":
		return name
	case i == 0:
		return kind
	}
	return fmt.Sprintf("%s-%d", kind, i+1)
}
