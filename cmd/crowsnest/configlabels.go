package main

import (
	"fmt"
	"maps"

	lokisource "crowsnest/sources/loki"
)

// lokiNamed is the i-th Loki that is read.
func lokiNamed(cfg lokisource.Config, i int) lokisource.Config {
	cfg.Name = numbered(cfg.Name, "loki", i)
	return cfg
}

// into adds what concerns every sink to the settings of one.
func (g Global) into(labels *map[string]string, url *string) {
	*labels = merged(g.ExternalLabels, *labels)
	if *url == "" {
		*url = g.ExternalURL
	}
}

// merged returns a with the entries of b, which win.
func merged(a, b map[string]string) map[string]string {
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

// numbered is the name of the i-th of a kind, from 0.
func numbered(name, kind string, i int) string {
	switch {
	case name != "":
		return name
	case i == 0:
		return kind
	}
	return fmt.Sprintf("%s-%d", kind, i+1)
}
