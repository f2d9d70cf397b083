package daemon

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"

	"crowsnest/agent/server"
	"crowsnest/daemon/component"
	"crowsnest/sources/otlp"
)

// DefaultListen is the address at which the pages, the API and the metrics are served.
const DefaultListen = "localhost:9797"

// WebOptions configure the web server.
type WebOptions struct {
	Listen      string
	Probe       string
	ConfigFile  string
	ExternalURL string
	Hosts       []string
	Lifecycle   bool
	Pprof       bool
}

// Listen opens the listeners. It is called before everything else, so that a port in use is reported immediately.
func Listen(f WebOptions) (main, probe net.Listener, err error) {
	main, err = net.Listen("tcp", f.Listen)
	if err != nil {
		return nil, nil, fmt.Errorf("open --web.listen-address: %w", err)
	}
	if f.Probe == "" {
		return main, nil, nil
	}
	probe, err = net.Listen("tcp", f.Probe)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open --web.probe-address: %w", err), main.Close())
	}
	return main, probe, nil
}

// isExposed reports whether other machines can reach a listener.
func isExposed(l net.Listener) bool {
	addr, ok := l.Addr().(*net.TCPAddr)
	return ok && !addr.IP.IsLoopback()
}

func closeAll(listeners ...net.Listener) error {
	var errs []error
	for _, l := range listeners {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	return errors.Join(errs...)
}

// checkReach warns of pages that anyone can read, of agents and collectors without authentication,
// and of alerts without a link. It also allows the host of the external URL.
func (d *Daemon) checkReach() {
	cfg, listener := d.opt.Cfg, d.opt.Listener
	if u, err := url.Parse(cfg.Global.ExternalURL); err == nil && u.Hostname() != "" {
		d.opt.Web.Hosts = append(d.opt.Web.Hosts, u.Hostname())
	}
	if listener != nil && isExposed(listener) && d.opt.Web.ConfigFile == "" {
		d.log.Warn().Str("address", listener.Addr().String()).Msg("anyone who can connect to this address can read the alerts: set --web.config.file for TLS and authentication, or restrict the network")
	}
	if listener != nil && isExposed(listener) && d.opt.Web.ConfigFile == "" && cfg.Web.Silences {
		d.log.Warn().Msg("anyone who can connect to this address can silence alerts: set --web.config.file for authentication, or remove web.silences")
	}
	if slices.ContainsFunc(component.SettingsOf[server.Config](cfg.Sources), func(c *server.Config) bool { return !c.IsGuarded() }) {
		d.log.Warn().Msg("sources.agents has no authentication: anyone who can connect to its address can forge and hide failures; set bearer_token_file or web_config_file, or restrict the network")
	}
	if slices.ContainsFunc(component.SettingsOf[otlp.Config](cfg.Sources), func(c *otlp.Config) bool { return !c.IsGuarded() }) {
		d.log.Warn().Msg("sources.otlp has no authentication: anyone who can connect to its address can forge and hide failures; set bearer_token_file or web_config_file, or restrict the network")
	}
	if ha := cfg.HighAvailability; ha != nil && !ha.IsGuarded() {
		d.log.Warn().Msg("high_availability has no authentication: anyone who can connect to its address can read the state and delay alerts; set token_review, bearer_token_file or web_config_file, or restrict the network")
	}
	if cfg.LinksNowhere() {
		d.log.Warn().Msg("alerts have no link to the page that explains them: set global.external_url or --web.external-url")
	}
}
