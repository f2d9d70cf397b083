package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"crowsnest/httpconfig"
)

// Defaults of the configuration.
const (
	defaultInterval     = 15 * time.Second
	defaultTimeout      = 10 * time.Second
	defaultConcurrency  = 8
	defaultUnknownAfter = time.Minute
	defaultForgetAfter  = time.Hour
	defaultMaxClusters  = 500
	defaultMaxAnswer    = 8
	defaultRefresh      = time.Minute
	defaultLabel        = "cluster"
	defaultMinClusters  = 3
	defaultFor          = time.Minute
	defaultHold         = 10 * time.Minute
)

const maxName = 253 // bytes of the name of a cluster

// Config lists the clusters of a fleet view, and when a failure in many of them is an alert.
type Config struct {
	// Clusters are daemons that are always asked.
	Clusters []Target `yaml:"clusters" bounds:"0,5000"`
	// HTTPSD finds daemons with the service discovery that Prometheus has as http_sd_configs.
	HTTPSD *HTTPSD `yaml:"http_sd"`
	// FileSD finds daemons with the service discovery that Prometheus has as file_sd_configs.
	FileSD *FileSD `yaml:"file_sd"`
	// ClusterLabel is the label of a discovered target that names its cluster. Default
	// cluster.
	ClusterLabel string `yaml:"cluster_label" bounds:"0,128"`
	// HTTP sets TLS, credentials and proxies for the daemons, as in Prometheus' http_config.
	// Redirects are never followed: they would leak credentials.
	HTTP httpconfig.Config `yaml:"http_config"`
	// Interval is the time between two polls of a cluster; 0 means 15s. Each pause is up to
	// a tenth shorter or longer.
	Interval time.Duration `yaml:"interval" bounds:"0s,1h"`
	// Timeout limits the duration of one poll; 0 means 10s.
	Timeout time.Duration `yaml:"timeout" bounds:"0s,10m"`
	// Concurrency is how many clusters are polled at the same time; 0 means 8.
	Concurrency int `yaml:"concurrency" bounds:"0,100"`
	// UnknownAfter is the age of the last answer from which a cluster is unknown; 0 means
	// 1m.
	UnknownAfter time.Duration `yaml:"unknown_after" bounds:"0s,1d"`
	// ForgetAfter is how long a cluster that discovery no longer finds counts as unknown;
	// 0 means 1h. Then it is forgotten, with its alerts.
	ForgetAfter time.Duration `yaml:"forget_after" bounds:"0s,1y"`
	// MaxClusters bounds the clusters; 0 means 500. Those beyond it are reported as an error.
	MaxClusters int `yaml:"max_clusters" bounds:"0,5000"`
	// MaxAnswerMiB bounds an answer, in MiB after decompression; 0 means 8. A larger one is
	// refused, and its cluster is unknown.
	MaxAnswerMiB int `yaml:"max_answer_mib" bounds:"0,256"`
	// Alert sets when a failure in many clusters is an alert.
	Alert Alert `yaml:"alert"`

	// Clock is time.Now; tests set another one.
	Clock func() time.Time `yaml:"-"`
	// Transport replaces the network in tests.
	Transport http.RoundTripper `yaml:"-"`
}

// Target is the daemon of one cluster.
type Target struct {
	// Cluster is the name of the cluster.
	Cluster string `yaml:"cluster" bounds:"1,253" strict:"required"`
	// URL is the address of its daemon.
	URL string `yaml:"url" bounds:"1,4096" strict:"required"`
}

// HTTPSD is Prometheus' service discovery over HTTP.
type HTTPSD struct {
	// URL answers with a list of targets as JSON.
	URL string `yaml:"url" bounds:"1,4096" strict:"required"`
	// Refresh is the time between two requests; 0 means 1m.
	Refresh time.Duration `yaml:"refresh" bounds:"0s,1d"`
	// HTTP sets TLS, credentials and proxies, as in Prometheus' http_config.
	HTTP httpconfig.Config `yaml:"http_config"`
}

// FileSD is Prometheus' file service discovery.
type FileSD struct {
	// Files are absolute paths, or globs, of JSON or YAML files with a list of targets.
	Files []string `yaml:"files" bounds:"1,100,4096"`
	// Refresh is the time between two readings; 0 means 1m.
	Refresh time.Duration `yaml:"refresh" bounds:"0s,1d"`
}

// Alert sets when a rule that is open in many clusters becomes an alert, and when it ends.
type Alert struct {
	// MinClusters is in how many clusters a rule must be open; 0 means 3.
	MinClusters int `yaml:"min_clusters" bounds:"0,5000"`
	// MinShare is the same as a share of all clusters, from 0 to 1. At least two clusters
	// are needed in any case. Only one of both may be set.
	MinShare float64 `yaml:"min_share" bounds:"0,1"`
	// For is how long that must last before the alert fires; 0 means 1m.
	For time.Duration `yaml:"for" bounds:"0s,1d"`
	// Hold is how long fewer clusters must have it before the alert ends; 0 means 10m.
	Hold time.Duration `yaml:"hold" bounds:"0s,1d"`
}

// WithDefaults returns the settings with the defaults of those that are not set.
func (a Alert) WithDefaults() Alert {
	if a.MinShare == 0 {
		a.MinClusters = cmp.Or(a.MinClusters, defaultMinClusters)
	}
	a.For, a.Hold = cmp.Or(a.For, defaultFor), cmp.Or(a.Hold, defaultHold)
	return a
}

func (c Config) withDefaults() Config {
	c.ClusterLabel = cmp.Or(c.ClusterLabel, defaultLabel)
	c.Interval, c.Timeout = cmp.Or(c.Interval, defaultInterval), cmp.Or(c.Timeout, defaultTimeout)
	c.Concurrency, c.MaxClusters = cmp.Or(c.Concurrency, defaultConcurrency), cmp.Or(c.MaxClusters, defaultMaxClusters)
	c.UnknownAfter, c.ForgetAfter = cmp.Or(c.UnknownAfter, defaultUnknownAfter), cmp.Or(c.ForgetAfter, defaultForgetAfter)
	c.MaxAnswerMiB = cmp.Or(c.MaxAnswerMiB, defaultMaxAnswer)
	c.Alert = c.Alert.WithDefaults()
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return c
}

// Validate returns all errors of the configuration, each with the fix. It does no I/O.
func (c Config) Validate() error {
	errs := []error{c.checkTargets(), c.checkDiscovery()}
	full := c.withDefaults()
	if full.Interval < time.Second {
		errs = append(errs, fmt.Errorf("interval is %v; use at least 1s", c.Interval))
	}
	if full.UnknownAfter < 2*full.Interval {
		errs = append(errs, fmt.Errorf("unknown_after is %v, and a cluster is polled every %v, so one lost answer would make it unknown; use at least %v",
			full.UnknownAfter, full.Interval, 2*full.Interval))
	}
	if c.Alert.MinClusters > 0 && c.Alert.MinShare > 0 {
		errs = append(errs, errors.New("alert has min_clusters and min_share; remove one of them"))
	}
	if c.Alert.MinClusters == 1 {
		errs = append(errs, errors.New("alert: min_clusters is 1, and each cluster sends its own alerts; use at least 2"))
	}
	if err := c.HTTP.Check(); err != nil {
		errs = append(errs, fmt.Errorf("http_config: %w", err))
	}
	return errors.Join(errs...)
}

func (c Config) checkTargets() error {
	var errs []error
	if len(c.Clusters) == 0 && c.HTTPSD == nil && c.FileSD == nil {
		errs = append(errs, errors.New("fleet: no cluster is configured; list some below clusters, or set http_sd or file_sd"))
	}
	if limit := cmp.Or(c.MaxClusters, defaultMaxClusters); len(c.Clusters) > limit {
		errs = append(errs, fmt.Errorf("clusters has %d entries, more than max_clusters (%d); raise max_clusters", len(c.Clusters), limit))
	}
	names, addresses := map[string]bool{}, map[string]string{}
	for _, t := range c.Clusters {
		base, err := parseAddress(t.URL)
		switch {
		case t.Cluster == "" || t.URL == "": // reported as missing
			continue
		case err != nil:
			errs = append(errs, fmt.Errorf("clusters: the url of %q %w; write it like https://crowsnest.eu-1.example.org", t.Cluster, err))
			continue
		case checkName(t.Cluster) != nil:
			errs = append(errs, fmt.Errorf("clusters: the name %.100q %w; use the cluster label of its alerts", t.Cluster, checkName(t.Cluster)))
		case names[t.Cluster]:
			errs = append(errs, fmt.Errorf("clusters: two entries have the name %q; a fleet view reads one daemon for each cluster", t.Cluster))
		case addresses[base.String()] != "":
			errs = append(errs, fmt.Errorf("clusters: %q and %q have the same url; a fleet view reads one daemon for each cluster", addresses[base.String()], t.Cluster))
		}
		names[t.Cluster], addresses[base.String()] = true, t.Cluster
	}
	return errors.Join(errs...)
}

func (c Config) checkDiscovery() error {
	var errs []error
	if sd := c.HTTPSD; sd != nil && sd.URL != "" {
		if _, err := parseAddress(sd.URL); err != nil {
			errs = append(errs, fmt.Errorf("http_sd: the url %w; write it like https://inventory.example.org/crowsnest", err))
		}
		if err := sd.HTTP.Check(); err != nil {
			errs = append(errs, fmt.Errorf("http_sd: http_config: %w", err))
		}
	}
	if sd := c.FileSD; sd != nil {
		for _, glob := range sd.Files {
			_, err := filepath.Match(glob, "")
			switch ext := filepath.Ext(glob); {
			case err != nil:
				errs = append(errs, fmt.Errorf("file_sd: %q is not a glob; write a path, or a pattern such as /etc/crowsnest/fleet/*.yml", glob))
			case !filepath.IsAbs(glob):
				errs = append(errs, fmt.Errorf("file_sd: %q is relative; write an absolute path", glob))
			case ext != ".json" && ext != ".yml" && ext != ".yaml":
				errs = append(errs, fmt.Errorf("file_sd: %q is neither JSON nor YAML; use a file that ends in .json, .yml or .yaml", glob))
			}
		}
	}
	return errors.Join(errs...)
}

// parseAddress reads the address of a server. Its errors continue a sentence and contain
// no part of the address, which may have a password.
func parseAddress(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimRight(text, "/"))
	switch {
	case err != nil:
		return nil, errors.New("cannot be read as an address")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("is not an absolute http or https address")
	case u.Fragment != "":
		return nil, errors.New("has a fragment")
	}
	return u, nil
}

// checkName returns an error that continues a sentence if a text cannot be the name of a
// cluster.
func checkName(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("has %d bytes, allowed are 1 to %d", len(name), maxName)
	}
	if clean(name, maxName) != name {
		return errors.New("has characters that cannot be shown")
	}
	return nil
}

// shown returns an address for people: without credentials and query.
func shown(u *url.URL) string {
	x := *u
	x.User, x.RawQuery = nil, ""
	return x.String()
}
