package cli

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"crowsnest/daemon"
	"crowsnest/daemon/config"
)

// runFlags are the flags of run.
type runFlags struct {
	config  string
	storage string
	web     daemon.WebOptions
	log     logFlags
}

func newRun(c *cli) *cobra.Command {
	f := runFlags{log: newLogFlags()}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the daemon: follow logs and tell Alertmanager",
		Long: `Follows logs, decides which known failures are open, and tells every Alertmanager.

A minimal configuration:

` + indented(exampleConfig) + `
SIGHUP loads rules again, as do changes of their files. SIGTERM stops within five
seconds; a second one at once.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.runDaemon(f, stated(cmd)) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config.file", config.DefaultFile, "configuration `FILE`")
	flags.StringVar(&f.storage, "storage.path", "", "`FOLDER` of the state; wins over the configuration (default "+config.DefaultStorage+")")
	addWebFlags(flags, &f.web)
	f.log.add(cmd)
	return cmd
}

func addWebFlags(flags *pflag.FlagSet, f *daemon.WebOptions) {
	flags.StringVar(&f.Listen, "web.listen-address", daemon.DefaultListen, "`ADDRESS` of pages, API, metrics and probes")
	flags.StringArrayVar(&f.Hosts, "web.allowed-host", nil, "further `NAME` under which browsers reach the pages, such as that of an ingress; * allows every name (repeatable)")
	flags.StringVar(&f.Probe, "web.probe-address", "", "`ADDRESS` of a second listener with the probes alone, without authentication")
	flags.StringVar(&f.ConfigFile, "web.config.file", "", "TLS and authentication of the listener, as exporter-toolkit's web configuration `FILE`")
	flags.StringVar(&f.ExternalURL, "web.external-url", "", "`URL` under which people reach the pages; alerts link to it")
	flags.BoolVar(&f.Lifecycle, "web.enable-lifecycle", false, "allow POST /-/reload")
	flags.BoolVar(&f.Pprof, "web.enable-pprof", false, "serve /debug/pprof")
}

// exampleConfig is the smallest configuration that is useful.
const exampleConfig = `sources:
  kubelet: {}                 # /var/log/pods of this node
sinks:
  alertmanager:
    urls: ["http://alertmanager-0:9093"]   # every one, never a load balancer
storage:
  path: /var/lib/crowsnest
`

func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"
}

// stated returns the value of every flag, for the page of the status.
func stated(cmd *cobra.Command) map[string]string {
	out := map[string]string{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			out[f.Name] = f.Value.String()
		}
	})
	return out
}

func (c *cli) runDaemon(f runFlags, flags map[string]string) error {
	// Whoever reads standard output or the log may go away, as journald does when
	// it is restarted: a write then fails, and does not end the process.
	signal.Ignore(syscall.SIGPIPE)
	// From here on no signal is lost, and none kills the process while it loads.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	if f.web.ExternalURL != "" {
		if err := config.CheckExternalURL(f.web.ExternalURL); err != nil {
			return usageErrorf("--web.external-url: %w; write it like https://crowsnest.example.org", err)
		}
	}
	log := f.log.logger(c)
	cfg, err := config.Read(f.config)
	if err != nil {
		return err
	}
	if f.storage != "" {
		cfg.Storage.Path = f.storage
	}
	if f.web.ExternalURL != "" {
		cfg.Global.ExternalURL = f.web.ExternalURL
	}
	main, probe, err := daemon.Listen(f.web)
	if err != nil {
		return err
	}
	daemon.LimitMemory(c.getenv, cfg.Limits)
	d, err := daemon.New(daemon.Options{
		Cfg: cfg, Log: log, Web: f.web, Listener: main, Probe: probe, Stdin: c.in, Stdout: c.out, Color: c.colors(c.out),
		Flags: flags, Getenv: c.getenv, ConfigFile: f.config, StorageFlag: f.storage,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer handleSignals(log, signals, d, cancel)()
	return d.Run(ctx)
}

// handleSignals turns signals into calls until the returned function is called.
func handleSignals(log zerolog.Logger, signals <-chan os.Signal, d *daemon.Daemon, stop context.CancelFunc) func() {
	done := make(chan struct{})
	go func() {
		stopping := false
		for {
			select {
			case <-done:
				return
			case sig := <-signals:
				switch {
				case sig == syscall.SIGHUP:
					_ = d.Reload(context.Background()) // it logs what is wrong
				case stopping:
					log.Error().Msg("second signal: exit at once, without the last state")
					os.Exit(exitFailed) //nolint:revive // there is no other way out at once
				default:
					stopping = true
					log.Info().Stringer("signal", sig).Msg("stopping")
					stop()
				}
			}
		}
	}()
	return func() { close(done) }
}
