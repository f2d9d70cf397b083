package journal

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/common/model"
)

const (
	defaultPoll     = 300 * time.Millisecond
	defaultLookBack = 15 * time.Minute
	// job is the label that collectors of logs give to journals.
	job = "systemd-journal"
)

// ownLabels come from the entries.
var ownLabels = []string{"identifier", "transport", "unit"}

// StreamLabels returns the labels that every stream has with these values, and those with any
// value.
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
	// Name is the source's name if there are several of the kind. Default: the kind.
	Name string `yaml:"name" bounds:"0,4096"`
	// Dirs are the folders that have one folder for each machine ID. Default
	// /var/log/journal and /run/log/journal.
	Dirs []string `yaml:"dirs" bounds:"0,16,4096"`
	// Units are globs of the units to read; an entry without a unit has its identifier
	// instead, such as kernel. An empty list includes all that a rule can match.
	Units []string `yaml:"units" bounds:"0,1000,4096"`
	// Node is the label node of every stream. Default is the environment variable
	// NODE_NAME, else the host name in each entry.
	Node string `yaml:"node" bounds:"0,253"`
	// LookBack is the maximum age of lines that are read without a saved position. Default
	// 15m.
	LookBack time.Duration `yaml:"look_back" bounds:"0s,1y"`
	// Labels are added to every stream, for example cluster.
	Labels map[string]string `yaml:"labels" bounds:"0,64,4096"`
	// PollInterval is the interval between reads. Default 300ms.
	PollInterval time.Duration `yaml:"poll_interval" bounds:"0|10ms,1y"`

	// Clock is time.Now; tests set another one.
	Clock func() time.Time `yaml:"-"`
}

// Validate returns all errors of the configuration.
func (c Config) Validate() error {
	var errs []error
	for _, dir := range c.Dirs {
		if !filepath.IsAbs(dir) {
			errs = append(errs, fmt.Errorf("journal: dirs has %q; use an absolute path", dir))
		}
	}
	for _, glob := range c.Units {
		if _, err := path.Match(glob, ""); err != nil {
			errs = append(errs, fmt.Errorf("journal: units has %q, which is not a glob; close its [ or remove a trailing \\", glob))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		switch {
		case !model.LegacyValidation.IsValidLabelName(name):
			errs = append(errs, fmt.Errorf("journal: label %q is not a label name; use letters, digits and _", name))
		case name == "node":
			errs = append(errs, errors.New(`journal: label "node" has a key of its own; set node`))
		case slices.Contains(ownLabels, name) || name == "job":
			errs = append(errs, fmt.Errorf("journal: label %q comes from the journal; remove it", name))
		}
	}
	return errors.Join(errs...)
}
