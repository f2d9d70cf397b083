package config

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"

	"golang.org/x/net/http/httpguts"

	"crowsnest/agent/client"
	"crowsnest/daemon/component"
	"crowsnest/internal/lazyre"
	"crowsnest/internal/strictyaml"
	"crowsnest/sinks/alertmanager"
	"crowsnest/web"
)

// Web sets the targets of the links on the daemon's pages, and the actions that the pages offer.
type Web struct {
	// LogsURL is the address of the logs of an alert, such as a query of Grafana Explore. {selector} is the selector of
	// the streams in LogQL, {selector_json} the same inside a JSON string, {from} and {to} are times in milliseconds,
	// {from_time} and {to_time} in RFC 3339, and {NAME} is the alert's label NAME. Values are percent-encoded; write
	// other braces as %7B and %7D.
	LogsURL string `yaml:"logs_url" bounds:"0,4096"`
	// AlertmanagerURL is the address of Alertmanager's pages for browsers. Default: the
	// first address of the first Alertmanager below sinks.
	AlertmanagerURL string `yaml:"alertmanager_url" bounds:"0,4096"`
	// Silences lets everybody who can read the pages make silences in the Alertmanagers
	// below sinks. Default false: the pages link to the form of Alertmanager.
	Silences bool `yaml:"silences"`
	// IdentityHeader is the name of the header in which an authenticating proxy sends the name of the user, such as
	// X-Auth-Request-User. crowsnest believes the header only from TrustedProxies, and uses the name as the author of
	// silences. Default: users type their names.
	IdentityHeader string `yaml:"identity_header" bounds:"0,256"`
	// TrustedProxies are the IP addresses and networks, such as 10.0.3.0/24, from which crowsnest believes
	// IdentityHeader. The proxies must replace the header that a client sends.
	TrustedProxies []string `yaml:"trusted_proxies" bounds:"0,100,64"`

	// MCP serves the tools for language models at /mcp, to everybody who can read the pages
	// (see docs/mcp.md). Default false.
	MCP bool `yaml:"mcp"`

	Keys strictyaml.Keys `yaml:"-"`
}

// placeholder matches the placeholders that LogsURL replaces, and braces that are not part of one.
var placeholder = lazyre.New(`\{[A-Za-z_][A-Za-z0-9_]*\}|[{}]`)

func (c *Config) checkWeb(k *checker) {
	keys := c.Web.Keys
	if c.Web.Silences && !keys.HasError("silences") && len(component.SettingsOf[alertmanager.Config](c.Sinks)) == 0 {
		k.addProblem(keys.Value("silences"), "bad-value", "silences is on, but there is no sink alertmanager", "add one below sinks, or remove silences")
	}
	if c.Web.MCP && !keys.HasError("mcp") && len(component.SettingsOf[client.Config](c.Sinks)) > 0 {
		k.addProblem(keys.Value("mcp"), "bad-value", "mcp is on, but this process is an agent, which knows no alerts", "turn it on at the aggregator, and remove it here")
	}
	c.checkUserHeader(k)
	for _, key := range []struct{ name, value string }{{"logs_url", c.Web.LogsURL}, {"alertmanager_url", c.Web.AlertmanagerURL}} {
		if key.value == "" || keys.HasError(key.name) {
			continue
		}
		plain := key.value
		if key.name == "logs_url" {
			brace := false
			plain = placeholder.ReplaceAllStringFunc(plain, func(m string) string {
				brace = brace || len(m) == 1
				return "x"
			})
			if brace {
				k.addProblem(keys.Value(key.name), "bad-value", "logs_url has a brace that is not part of a placeholder", "write other braces as %7B and %7D")
				continue
			}
		}
		u, err := url.Parse(plain)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			k.addProblem(keys.Value(key.name), "bad-value", fmt.Sprintf("%s must be an absolute http or https address without user and password", key.name), "write it like https://grafana.example.org")
		}
	}
}

func (c *Config) checkUserHeader(k *checker) {
	keys, header := c.Web.Keys, c.Web.IdentityHeader
	isSecret := slices.Contains([]string{"Authorization", "Proxy-Authorization", "Cookie"}, http.CanonicalHeaderKey(header))
	switch {
	case keys.HasError("identity_header") || keys.HasError("trusted_proxies"):
	case header == "" && len(c.Web.TrustedProxies) > 0:
		k.addProblem(keys.Value("trusted_proxies"), "bad-value", "trusted_proxies has no effect without identity_header", "name the header in which the proxies send the name of the user, or remove trusted_proxies")
	case header != "" && (!httpguts.ValidHeaderFieldName(header) || isSecret):
		k.addProblem(keys.Value("identity_header"), "bad-value", "identity_header must be the name of a header, but not of one that carries secrets", "write it like X-Auth-Request-User")
	case header != "" && len(c.Web.TrustedProxies) == 0:
		k.addProblem(keys.Value("identity_header"), "bad-value", "identity_header needs trusted_proxies, because otherwise everybody could claim to be somebody else", "list the addresses of the proxies that set the header, such as trusted_proxies: [10.0.3.0/24]")
	}
	for _, proxy := range c.Web.TrustedProxies {
		if network, err := parseProxy(proxy); !keys.HasError("trusted_proxies") && (err != nil || network.Bits() == 0) {
			k.addProblem(keys.Value("trusted_proxies"), "bad-value", fmt.Sprintf("trusted_proxies: %q must be an IP address, or a network that does not contain all addresses", proxy), "write it like 10.0.3.7 or 10.0.3.0/24")
		}
	}
}

// parseProxy returns the network of an entry of TrustedProxies.
func parseProxy(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return addr.Unmap().Prefix(addr.Unmap().BitLen())
	}
	return netip.ParsePrefix(text)
}

// Links returns the addresses of other programs that the pages link to.
func (c *Config) Links() web.Links {
	out := web.Links{Logs: c.Web.LogsURL, Alertmanager: c.Web.AlertmanagerURL}
	all := component.SettingsOf[alertmanager.Config](c.Sinks)
	out.MCP = c.Web.MCP
	out.Silences, out.IdentityHeader = c.Web.Silences && len(all) > 0, c.Web.IdentityHeader
	for _, proxy := range c.Web.TrustedProxies {
		if network, err := parseProxy(proxy); err == nil { // checkUserHeader refuses invalid entries
			out.TrustedProxies = append(out.TrustedProxies, network)
		}
	}
	for _, am := range all {
		for _, address := range am.URLs {
			if u, err := url.Parse(address); err == nil {
				u.User, u.RawQuery = nil, ""
				out.Alertmanager = cmp.Or(out.Alertmanager, u.String())
			}
		}
	}
	return out
}
