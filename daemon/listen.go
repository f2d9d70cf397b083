package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"

	"github.com/rs/zerolog"
)

// DefaultListen is where the pages, the API and the metrics are served.
const DefaultListen = "localhost:9797"

// WebOptions are what is served, and where.
type WebOptions struct {
	Listen      string
	Probe       string
	ConfigFile  string
	ExternalURL string
	Hosts       []string
	Lifecycle   bool
	Pprof       bool
}

// Listen opens the listeners before anything else is started, so that a taken
// port is reported at once.
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

// exposed reports whether other machines can reach a listener.
func exposed(l net.Listener) bool {
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

// slogger is for libraries that insist on package slog.
func slogger(log zerolog.Logger) *slog.Logger { return slog.New(zerolog.NewSlogHandler(log)) }

// checkReach warns of pages that anybody can read and of alerts without a link
// to them, and allows the host of the external URL.
func (d *Daemon) checkReach() {
	cfg, listener := d.opt.Cfg, d.opt.Listener
	if u, err := url.Parse(cfg.Global.ExternalURL); err == nil && u.Hostname() != "" {
		d.opt.Web.Hosts = append(d.opt.Web.Hosts, u.Hostname())
	}
	if listener != nil && exposed(listener) && d.opt.Web.ConfigFile == "" {
		d.log.Warn().Str("address", listener.Addr().String()).Msg("everybody who reaches this address can read the alerts: set --web.config.file for TLS and authentication, or restrict who reaches it")
	}
	if cfg.LinksNowhere() {
		d.log.Warn().Msg("alerts have no link to the page that explains them: set global.external_url or --web.external-url")
	}
}
