package journal

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"crowsnest/sources"
)

const job = "systemd-journal" // value of the label job that log collectors use for journals

// ownLabels are the labels whose values come from journal entries.
var ownLabels = []string{"identifier", "transport", "unit"}

// StreamLabels returns the labels that have a fixed value for every stream, and the names of the labels that vary.
func (c Config) StreamLabels() (fixed map[string]string, free []string) {
	fixed = map[string]string{"job": job}
	free = slices.Clone(ownLabels)
	maps.Copy(fixed, c.Labels)
	if c.Node != "" {
		fixed["node"] = c.Node
	} else {
		free = append(free, "node")
	}
	return fixed, free
}

// Config selects the journals and entries to read.
type Config struct {
	sources.Common `yaml:",inline"`
	// Dirs are the folders that contain one folder for each machine ID. Default /var/log/journal and /run/log/journal.
	Dirs []string `yaml:"dirs" bounds:"0,16,4096"`
	// Units are globs that select the units to read. An entry without a unit is selected by its
	// identifier, such as kernel. An empty list selects everything that a rule can match.
	Units []string `yaml:"units" bounds:"0,1000,4096"`
	// Node is the value of the label node. Default is the environment variable NODE_NAME, or
	// else the host name in each entry.
	Node string `yaml:"node" bounds:"0,253"`
	// LookBack is the maximum age of the lines that are read if there is no saved position. Default 15m.
	LookBack time.Duration `yaml:"look_back" bounds:"0s,1y"`
	// Labels are labels that are added to every stream, for example cluster.
	Labels map[string]string `yaml:"labels" bounds:"0,64,4096"`
	// PollInterval is the interval between reads. Default 300ms.
	PollInterval time.Duration `yaml:"poll_interval" bounds:"0|10ms,1y"`
}

// Validate returns all errors of the configuration.
func (c Config) Validate() error {
	var errs []error
	for _, dir := range c.Dirs {
		if !filepath.IsAbs(dir) {
			errs = append(errs, fmt.Errorf("journal: dirs has %q; use an absolute path", dir))
		}
	}
	errs = append(errs, sources.CheckGlobs("journal: units", c.Units)...)
	if _, set := c.Labels["node"]; set {
		errs = append(errs, errors.New(`journal: label "node" is set with the key node, not with a label`))
	}
	return errors.Join(append(errs, sources.CheckLabels("journal", c.Labels, "the journal", append(ownLabels, "job")...)...)...)
}
