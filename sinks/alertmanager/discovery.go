package alertmanager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"crowsnest/internal/httpconfig"
	"crowsnest/sinks"
)

const (
	// defaultRefresh is shorter than in Prometheus, because an Alertmanager that appears must have
	// the open alerts within 10 s.
	defaultRefresh = 5 * time.Second
	lookUpWithin   = 5 * time.Second
	maxFound       = 32      // largest number of Alertmanagers that one DNS name or one pattern of files may have
	maxTargetFile  = 1 << 20 // largest size of a file of targets, in bytes
)

// Types of DNS records.
const (
	recordSRV  = "SRV"
	recordA    = "A"
	recordAAAA = "AAAA"
)

// DNSConfig finds Alertmanagers by DNS.
type DNSConfig struct {
	// Names are DNS names. Every address of a name, and every target of an SRV record, is a separate Alertmanager.
	Names []string `yaml:"names" bounds:"1,16,253" strict:"required"`
	// Type is the type of the records, which is SRV, A or AAAA. Default SRV.
	Type string `yaml:"type" bounds:"0,4096" jsonschema:"enum=SRV,enum=A,enum=AAAA"`
	// Port is the port of the Alertmanagers. A and AAAA records require it. SRV records contain a port.
	Port int `yaml:"port" bounds:"0,65535"`
	// RefreshInterval is the time between two lookups. Default 5s.
	RefreshInterval time.Duration `yaml:"refresh_interval" bounds:"0|1s,1h"`
}

// FileConfig finds Alertmanagers in files.
type FileConfig struct {
	// Files are files in the format of Prometheus' file_sd_configs, YAML or JSON. Relative paths start at the folder of
	// the configuration file. The name of a file may be a glob. Of the labels, crowsnest uses only `__scheme__`.
	Files []string `yaml:"files" bounds:"1,16,4096" strict:"required"`
	// RefreshInterval is the time after which the files are read again. Default 5s.
	RefreshInterval time.Duration `yaml:"refresh_interval" bounds:"0|1s,1h"`
}

// Target is the address of one Alertmanager.
type Target struct {
	// Name is the base address for people. It identifies the Alertmanager in the saved state. For
	// a target of an SRV record it has the DNS name, which stays when a pod gets another address.
	Name string `json:"name"`
	// URL is the base address of requests. Its host is the name in the certificate.
	URL string `json:"url"`
	// Address is the address and port to connect to. Empty means the host of URL.
	Address string `json:"address,omitempty"`

	key string // configuration key that names the target
}

// DialContext connects to t.Address if address is the host of t.URL, and to address otherwise.
func (t Target) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if _, host, _ := strings.Cut(t.URL, "://"); t.Address != "" && strings.HasPrefix(host+"/", address+"/") {
		address = t.Address
	}
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

// resolver is implemented by net.Resolver.
type resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// discovery finds the Alertmanagers of one DNS name or of one pattern of files.
type discovery struct {
	name  string // name for people, which also identifies the discovery in the saved state
	key   string // configuration key of the discovery
	every time.Duration
	find  func(ctx context.Context, r resolver) ([]Target, error)

	// The mutex of the sink guards the following fields.
	targets  []Target // targets of the last successful lookup
	looked   bool     // whether there was a lookup in this process
	err      error    // error of the last lookup
	failures int64
	failing  time.Time // time of the first failure since the last success; zero if the last lookup succeeded
}

// discoveries returns a discovery for each DNS name and each pattern of files in the configuration.
func (c Config) discoveries() []*discovery {
	var out []*discovery
	for _, d := range c.DNSConfigs {
		for _, name := range d.Names {
			text := d.recordType() + " " + name
			if d.Port > 0 {
				text += ":" + strconv.Itoa(d.Port)
			}
			out = append(out, &discovery{
				name: text, key: "dns_sd_configs", every: cmp.Or(d.RefreshInterval, defaultRefresh),
				find: func(ctx context.Context, r resolver) ([]Target, error) { return c.lookUp(ctx, r, d, name) },
			})
		}
	}
	for _, f := range c.FileConfigs {
		for _, pattern := range f.Files {
			out = append(out, &discovery{
				name: pattern, key: "file_sd_configs", every: cmp.Or(f.RefreshInterval, defaultRefresh),
				find: func(context.Context, resolver) ([]Target, error) { return c.readTargets(pattern) },
			})
		}
	}
	return out
}

// lookUp returns the Alertmanagers of a lookup. It fails if there are none, because a cluster
// without any Alertmanager is much less likely than a problem of DNS.
func (d *discovery) lookUp(ctx context.Context, r resolver) ([]Target, error) {
	ctx, cancel := context.WithTimeout(ctx, lookUpWithin)
	defer cancel()
	found, err := d.find(ctx, r)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, errors.New("the answer has no address")
	case len(found) > maxFound:
		return nil, fmt.Errorf("the answer has %d addresses, more than %d", len(found), maxFound)
	}
	for i := range found {
		found[i].key = d.key
	}
	return found, nil
}

// record sets the result of a lookup. After a failure the last targets stay.
func (d *discovery) record(found []Target, err error, now time.Time) {
	d.looked, d.err = true, err
	switch {
	case err == nil:
		d.targets, d.failing = found, time.Time{}
	case d.failing.IsZero():
		d.failing = now
		fallthrough
	default:
		d.failures++
	}
}

func (d *discovery) status(sink string) sinks.DiscoveryStatus {
	out := sinks.DiscoveryStatus{Sink: sink, Discovery: d.name, Up: d.looked && d.err == nil, Targets: len(d.targets), Failures: d.failures, FailingSince: d.failing}
	if d.err != nil {
		out.Error = d.err.Error()
	}
	return out
}

func (d DNSConfig) recordType() string { return cmp.Or(strings.ToUpper(d.Type), recordSRV) }

func (c Config) lookUp(ctx context.Context, r resolver, d DNSConfig, name string) ([]Target, error) {
	if d.recordType() != recordSRV {
		addresses, err := r.LookupNetIP(ctx, map[string]string{recordA: "ip4", recordAAAA: "ip6"}[d.recordType()], name)
		return c.eachAddress(name, d.Port, addresses), err
	}
	_, records, err := r.LookupSRV(ctx, "", "", name)
	if err != nil {
		return nil, err
	}
	var out []Target
	for _, record := range records[:min(len(records), maxFound+1)] {
		addresses, err := r.LookupNetIP(ctx, "ip", record.Target)
		all := c.eachAddress(record.Target, int(record.Port), addresses)
		if err != nil || maxPerFamily(addresses) == 1 {
			// The IPv4 and the IPv6 address of a name belong to one Alertmanager. If the lookup failed, the
			// Alertmanager keeps its last address.
			t := Target{URL: c.foundURL(record.Target, int(record.Port))}
			if t.Name = t.URL; err == nil {
				t.Address = all[0].Address
			}
			all = []Target{t}
		}
		out = append(out, all...)
	}
	return out, nil
}

// eachAddress returns one target for each address of a host.
func (c Config) eachAddress(host string, port int, addresses []netip.Addr) []Target {
	var out []Target
	for _, a := range addresses {
		ip := a.Unmap().String()
		out = append(out, Target{Name: c.foundURL(ip, port), URL: c.foundURL(host, port), Address: net.JoinHostPort(ip, strconv.Itoa(port))})
	}
	return out
}

func (c Config) foundURL(host string, port int) string {
	return c.withScheme(c.Scheme, net.JoinHostPort(strings.TrimSuffix(host, "."), strconv.Itoa(port)))
}

func (c Config) withScheme(scheme, host string) string {
	out := cmp.Or(scheme, "http") + "://" + host
	if prefix := strings.Trim(c.PathPrefix, "/"); prefix != "" {
		out += "/" + prefix
	}
	return out
}

// maxPerFamily returns the number of addresses of the IP family that has more.
func maxPerFamily(addresses []netip.Addr) int {
	four := 0
	for _, a := range addresses {
		if a.Unmap().Is4() {
			four++
		}
	}
	return max(four, len(addresses)-four)
}

// readTargets returns the targets of the files that match a pattern.
func (c Config) readTargets(pattern string) ([]Target, error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.New("there is no such file")
	}
	var out []Target
	for _, file := range files {
		found, err := c.readTargetFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, found...)
	}
	return out, nil
}

func (c Config) readTargetFile(file string) ([]Target, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxTargetFile {
		return nil, fmt.Errorf("the file has %d bytes, more than %d", info.Size(), maxTargetFile)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var groups []struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	if err := yaml.UnmarshalStrict(data, &groups); err != nil {
		return nil, fmt.Errorf("not a list of maps with targets: %w", err)
	}
	var out []Target
	for _, g := range groups {
		for _, t := range g.Targets {
			u, err := httpconfig.BaseURL(c.withScheme(cmp.Or(g.Labels["__scheme__"], c.Scheme), t), "alertmanager-0:9093")
			if err != nil || u.Host != t {
				return nil, fmt.Errorf("target %q is not an address and a port, such as alertmanager-0:9093", t)
			}
			out = append(out, Target{Name: endpointName(u), URL: endpointName(u)})
		}
	}
	return out, nil
}

// Targets looks up all Alertmanagers once. It returns those that it found, and the errors of the other lookups.
func (c Config) Targets(ctx context.Context) ([]Target, error) {
	var out []Target
	for _, url := range c.URLs {
		out = append(out, Target{Name: url, URL: url})
	}
	var errs []error
	for _, d := range c.discoveries() {
		found, err := d.lookUp(ctx, net.DefaultResolver)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", d.name, err))
		}
		out = append(out, found...)
	}
	return out, errors.Join(errs...)
}

// SetDirectory resolves relative paths of files of targets against a folder.
func (c *Config) SetDirectory(dir string) {
	for _, f := range c.FileConfigs {
		for i, name := range f.Files {
			if name != "" && !filepath.IsAbs(name) {
				f.Files[i] = filepath.Join(dir, name)
			}
		}
	}
}

// validateDiscovery returns the problems of the keys that find Alertmanagers.
func (c Config) validateDiscovery() error {
	var errs []error
	if len(c.DNSConfigs)+len(c.FileConfigs) == 0 {
		if c.Scheme != "" || c.PathPrefix != "" {
			errs = append(errs, errors.New("scheme: scheme and path_prefix are only for dns_sd_configs and file_sd_configs; write them into urls, or remove them"))
		}
		return errors.Join(errs...)
	}
	if c.Scheme != "" && c.Scheme != "http" && c.Scheme != "https" {
		errs = append(errs, fmt.Errorf("scheme: %q is not a scheme; use http or https", c.Scheme))
	}
	if strings.ContainsAny(c.PathPrefix, "?#") || strings.Contains(c.PathPrefix, "/api/v") {
		errs = append(errs, fmt.Errorf("path_prefix: %q is not a prefix; give the path in front of /api/v2", c.PathPrefix))
	}
	if len(c.DNSConfigs) > 0 && (c.HTTP.ProxyFromEnvironment || c.HTTP.ProxyURL.URL != nil) {
		errs = append(errs, errors.New("dns_sd_configs: a proxy of http_config looks up names itself, so it would reach only one address of each; use urls or file_sd_configs, or remove the proxy"))
	}
	for _, d := range c.DNSConfigs {
		errs = append(errs, d.validate()...)
	}
	for _, f := range c.FileConfigs {
		for _, pattern := range f.Files {
			if _, err := filepath.Match(filepath.Base(pattern), ""); err != nil || pattern == "" || strings.ContainsAny(filepath.Dir(pattern), "*?[") {
				errs = append(errs, fmt.Errorf("file_sd_configs: %q is not the path of a file; only the name of the file may be a glob", pattern))
			}
		}
	}
	seen := map[string]bool{}
	for _, d := range c.discoveries() {
		if seen[d.name] {
			errs = append(errs, fmt.Errorf("%s: %s is listed twice; remove one", d.key, d.name))
		}
		seen[d.name] = true
	}
	return errors.Join(errs...)
}

func (d DNSConfig) validate() (errs []error) {
	kind := d.recordType()
	switch {
	case !slices.Contains([]string{recordSRV, recordA, recordAAAA}, kind):
		errs = append(errs, fmt.Errorf("dns_sd_configs: type %q is not supported; use SRV, A or AAAA", d.Type))
	case kind != recordSRV && d.Port == 0:
		errs = append(errs, fmt.Errorf("dns_sd_configs: %s records have no port; set port, such as 9093", kind))
	case kind == recordSRV && d.Port != 0:
		errs = append(errs, errors.New("dns_sd_configs: SRV records have their own ports; remove port, or set type to A"))
	}
	for _, name := range d.Names {
		_, notIP := netip.ParseAddr(name)
		switch {
		case notIP == nil:
			errs = append(errs, fmt.Errorf("dns_sd_configs: %s is an address and not a name; list it in urls", name))
		case name == "" || strings.ContainsAny(name, "/:@ "):
			errs = append(errs, fmt.Errorf("dns_sd_configs: %q is not a DNS name; write the name without scheme and port", name))
		case strings.HasPrefix(name, "_") && kind != recordSRV:
			errs = append(errs, fmt.Errorf("dns_sd_configs: %s is a name of SRV records; set type to SRV and remove port", name))
		}
	}
	return errs
}
