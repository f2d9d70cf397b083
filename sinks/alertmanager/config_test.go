package alertmanager

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/internal/strictyaml"
)

func TestConfigErrors(t *testing.T) {
	f := func(change func(*Config), want ...string) {
		t.Helper()
		cfg := Config{URLs: []string{"http://am-0:9093"}}
		change(&cfg)
		err := cfg.Validate()
		if len(want) == 0 {
			require.NoError(t, err)
			return
		}
		require.EqualError(t, err, strings.Join(want, "\n"))
		_, newErr := New(cfg, Options{})
		require.EqualError(t, newErr, err.Error())
	}
	urls := func(u ...string) func(*Config) { return func(c *Config) { c.URLs = u } }
	label := func(name, value string) func(*Config) {
		return func(c *Config) { c.ExternalLabels = map[string]string{name: value} }
	}
	f(func(*Config) {})
	f(urls("https://am.example/prefix/", "http://[::1]:9093", "http://10.0.0.1:9093"))
	f(urls(), "urls: the list is empty; list the address of every Alertmanager, such as http://alertmanager-0:9093, or set dns_sd_configs or file_sd_configs")
	f(urls("am:9093", "http://", "ftp://x"),
		`urls: "am:9093" has no scheme; write http:// or https:// in front`,
		`urls: "http://" has no host; write it like http://alertmanager-0:9093`,
		`urls: "ftp://x" has no scheme; write http:// or https:// in front`)
	f(urls("http://u:secret@am"), "urls: http://u:xxxxx@am: no credentials in an address; use http_config.basic_auth")
	f(urls("http://u:secret@am:port"), "urls: invalid address; write it like http://alertmanager-0:9093")
	f(urls("http://am/api/v2/alerts"), "urls: http://am/api/v2/alerts: give the base address, without /api/v2/alerts")
	f(urls("http://am", "http://am/"), "urls: http://am is listed twice; remove one")
	f(urls("http://am?x=1"), `urls: "http://am?x=1": remove what follows the path (? or #)`)
	dns := func(d ...DNSConfig) func(*Config) { return func(c *Config) { c.URLs, c.DNSConfigs = nil, d } }
	f(dns(DNSConfig{Names: []string{"_web._tcp.am.monitoring.svc", "am.example."}}, DNSConfig{Names: []string{"am"}, Type: "a", Port: 9093}))
	f(dns(DNSConfig{Names: []string{"am"}, Type: "MX"}), `dns_sd_configs: type "MX" is not supported; use SRV, A or AAAA`)
	f(dns(DNSConfig{Names: []string{"am"}, Type: "AAAA"}), "dns_sd_configs: AAAA records have no port; set port, such as 9093")
	f(dns(DNSConfig{Names: []string{"am"}, Port: 9093}), "dns_sd_configs: SRV records have their own ports; remove port, or set type to A")
	f(dns(DNSConfig{Names: []string{"_web._tcp.am"}, Type: "A", Port: 1}), "dns_sd_configs: _web._tcp.am is a name of SRV records; set type to SRV and remove port")
	f(dns(DNSConfig{Names: []string{"10.0.0.1", "http://am:9093", ""}}),
		"dns_sd_configs: 10.0.0.1 is an address and not a name; list it in urls",
		`dns_sd_configs: "http://am:9093" is not a DNS name; write the name without scheme and port`,
		`dns_sd_configs: "" is not a DNS name; write the name without scheme and port`)
	f(dns(DNSConfig{Names: []string{"am", "am"}}), "dns_sd_configs: SRV am is listed twice; remove one")
	f(func(c *Config) {
		c.DNSConfigs, c.HTTP.ProxyFromEnvironment = []DNSConfig{{Names: []string{"am"}}}, true
	},
		"dns_sd_configs: a proxy of http_config looks up names itself, so it would reach only one address of each; use urls or file_sd_configs, or remove the proxy")
	file := func(names ...string) func(*Config) {
		return func(c *Config) { c.URLs, c.FileConfigs = nil, []FileConfig{{Files: names}} }
	}
	f(file("/etc/am/*.yml", "am.json"))
	f(file("/etc/*/am.yml", "am[.yml"),
		`file_sd_configs: "/etc/*/am.yml" is not the path of a file; only the name of the file may be a glob`,
		`file_sd_configs: "am[.yml" is not the path of a file; only the name of the file may be a glob`)
	f(func(c *Config) { c.Scheme = "https" }, "scheme: scheme and path_prefix are only for dns_sd_configs and file_sd_configs; write them into urls, or remove them")
	f(func(c *Config) {
		c.FileConfigs, c.Scheme, c.PathPrefix = []FileConfig{{Files: []string{"x"}}}, "ftp", "/api/v2"
	},
		`scheme: "ftp" is not a scheme; use http or https`, `path_prefix: "/api/v2" is not a prefix; give the path in front of /api/v2`)
	f(label("a-b", "x"), `external_labels: "a-b" is not a label name; use letters, digits and _`)
	f(label("severity", "x"), "external_labels: severity is reserved for labels that rules set; use another name")
	f(label("cluster", ""), "external_labels: the value of cluster must be 1 to 256 bytes of UTF-8")
	f(func(c *Config) { c.ExternalURL = "crowsnest:8080" }, `external_url: "crowsnest:8080" has no scheme; write http:// or https:// in front`)
	f(func(c *Config) { c.ResendDelay, c.EndsAfter = 30*time.Minute, time.Hour }, "ends_after: 1h0m0s is less than four times resend_delay; use at least 2h0m0s")
	f(func(c *Config) { c.ResendDelay = time.Hour })
	none := time.Duration(0)
	f(func(c *Config) { c.MinFiring = &none })
}

func TestConfigFile(t *testing.T) {
	var cfg Config
	problems := strictyaml.Decode("x.yml", []byte(`
urls: [https://am-0:9093]
timeout: 5s
min_firing: 90s
external_labels: {cluster: c1}
http_config:
  basic_auth: {username: u, password_file: /secret}
  tls_config: {ca_file: ca.crt}
`), &cfg, strictyaml.Options{})
	require.Empty(t, problems)
	require.NoError(t, cfg.Validate())
	require.Equal(t, "/secret", cfg.HTTP.BasicAuth.PasswordFile)
	require.Equal(t, "ca.crt", cfg.HTTP.TLSConfig.CAFile)
	require.Equal(t, 90*time.Second, *cfg.MinFiring)

	cfg = Config{}
	problems = strictyaml.Decode("x.yml", []byte("urls: [http://am]\nhttp_config: {basic_auht: {}}\n"), &cfg, strictyaml.Options{})
	require.Len(t, problems, 1)
	require.Contains(t, problems[0].String(), "basic_auht")
	require.Equal(t, 2, problems[0].Line)
}

// New opens no file: the running sink reports a missing certificate and retries.
func TestNewReadsNoFile(t *testing.T) {
	cfg := Config{URLs: []string{"https://am"}}
	cfg.HTTP.TLSConfig.CAFile = "/does/not/exist"
	_, err := New(cfg, Options{})
	require.NoError(t, err)
}
