package config

import (
	"fmt"
	"path"

	"crowsnest/internal/strictyaml"
)

// Sentinel reports failures that no rule describes, as alerts UnknownFailure of severity info: docs/unknown.md.
type Sentinel struct {
	// Enabled turns on the alert UnknownFailure and the page Unknown (see docs/unknown.md). Default true.
	Enabled bool `yaml:"enabled"`
	// AlertsPerDay is the largest number of alerts UnknownFailure in 24 hours. Default 10. With
	// 0, only the page Unknown shows such failures.
	AlertsPerDay int `yaml:"alerts_per_day" bounds:"0,1000"`
	// Ignore excludes error lines. The page Unknown shows the line to add for each failure.
	Ignore []Ignored `yaml:"ignore" bounds:"0,1000"`

	Keys strictyaml.Keys `yaml:"-"`
}

// Ignored excludes the error lines that fulfil all of its conditions.
type Ignored struct {
	// Namespace is the name of a namespace, or a glob.
	Namespace string `yaml:"namespace" bounds:"0,253"`
	// Component is the name of a container, unit or app, or a glob.
	Component string `yaml:"component" bounds:"0,253"`
	// Text is a text that the line contains, in any case of letters.
	Text string `yaml:"text" bounds:"0,1024"`

	Keys strictyaml.Keys `yaml:"-"`
}

func (c *Config) checkSentinel(k *checker) {
	keys := c.Sentinel.Keys
	if keys.HasError("ignore") {
		return
	}
	for i := range c.Sentinel.Ignore {
		g := &c.Sentinel.Ignore[i]
		if g.Namespace == "" && g.Component == "" && g.Text == "" && !g.Keys.HasAnyError() {
			k.addProblem(keys.Item("ignore", i), "bad-value", "the entry has no condition", "name a namespace, a component or a text; to report no unknown failures at all, set `enabled: false`")
			continue
		}
		for key, glob := range map[string]string{"namespace": g.Namespace, "component": g.Component} {
			if _, err := path.Match(glob, ""); err != nil {
				k.addProblem(g.Keys.Value(key), "bad-value", fmt.Sprintf("%q is not a glob", glob), "write a name, or a glob such as team-*")
			}
		}
	}
}
