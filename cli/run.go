package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"crowsnest/daemon"
	"crowsnest/daemon/config"
	"crowsnest/lab/scan"
)

type runFlags struct {
	config  string
	storage string
	web     daemon.WebOptions
	log     logFlags
}

func newRun(c *cli) *cobra.Command {
	f := runFlags{log: newLogFlags()}
	cmd := &cobra.Command{
		Use: "run", Short: "Run the daemon: follow logs and notify Alertmanager", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.runDaemon(f, flagValues(cmd)) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config.file", config.DefaultFile, "configuration `FILE`")
	flags.StringVar(&f.storage, "storage.path", "", "`FOLDER` of the state; overrides the configuration (default "+config.DefaultStorage+")")
	addWebFlags(flags, &f.web)
	f.log.add(cmd)
	return cmd
}

func addWebFlags(flags *pflag.FlagSet, f *daemon.WebOptions) {
	flags.StringVar(&f.Listen, "web.listen-address", daemon.DefaultListen, "`ADDRESS` of pages, API, metrics and probes")
	flags.StringArrayVar(&f.Hosts, "web.allowed-host", nil, "additional `NAME` under which browsers reach the pages, such as that of an ingress; * allows every name (repeatable)")
	flags.StringVar(&f.Probe, "web.probe-address", "", "`ADDRESS` of a second listener that serves only the probes, without authentication")
	flags.StringVar(&f.ConfigFile, "web.config.file", "", "exporter-toolkit web configuration `FILE`: TLS and authentication of the listener")
	flags.StringVar(&f.ExternalURL, "web.external-url", "", "`URL` under which users reach the pages; alerts link to it")
	flags.BoolVar(&f.Lifecycle, "web.enable-lifecycle", false, "allow POST /-/reload")
	flags.BoolVar(&f.Pprof, "web.enable-pprof", false, "serve /debug/pprof")
}

func flagValues(cmd *cobra.Command) map[string]string {
	out := map[string]string{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			out[f.Name] = f.Value.String()
		}
	})
	return out
}

func (c *cli) runDaemon(f runFlags, flags map[string]string) error {
	// The reader of standard output or of the log may exit, as journald does during a restart. Writes must then fail
	// without ending the process.
	signal.Ignore(syscall.SIGPIPE)
	// Signals are caught before the rules are loaded, so that none is lost or ends the process.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	if f.web.ExternalURL != "" {
		if err := config.CheckExternalURL(f.web.ExternalURL); err != nil {
			return usageErrorf("--web.external-url: %w; write it like https://crowsnest.example.org", err)
		}
	}
	log := f.log.newLogger(c)
	free := func(release func() error) {
		if err := release(); err != nil {
			log.Debug().Err(err).Msg("the pages of the program file stay in memory")
		}
	}
	free(daemon.ReleaseProgram) // frees memory that only the initialization of packages needed
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
	d, err := daemon.New(daemon.Options{
		Cfg: cfg, Log: log, Web: f.web, Listener: main, Probe: probe, Stdin: c.in, Stdout: c.out, Color: c.colors(c.out),
		Flags: flags, Getenv: c.getenv, ConfigFile: f.config, StorageFlag: f.storage,
		Started: func() { free(daemon.FreeMemory) }, Scan: scan.ForPage, MCP: newMCPHandler(log),
	})
	if err != nil {
		return err
	}
	c.collection.End()
	// The limit is set only now, because an earlier limit would slow down the loading of rules by half.
	free(func() error { return daemon.LimitMemory(c.getenv, cfg.Limits) })
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer handleSignals(log, signals, d, cancel)()
	return d.Run(ctx)
}

// handleSignals reloads on SIGHUP and stops the daemon on other signals, until the returned function is called.
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
					_ = d.Reload(context.Background()) // Reload logs its error
				case stopping:
					log.Error().Msg("second signal: exiting immediately without saving the state")
					os.Exit(exitFailed) //nolint:revive // deferred calls could block
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

type logFlags struct {
	level  *oneOf
	format *oneOf
}

func newLogFlags() logFlags {
	return logFlags{level: newOneOf("info", "debug", "warn", "error"), format: newOneOf("auto", "json", "console")}
}

func (f *logFlags) add(cmd *cobra.Command) {
	cmd.Flags().Var(f.level, "log.level", "minimum level to log")
	cmd.Flags().Var(f.format, "log.format", "log format; auto: console on a terminal, json otherwise")
}

func (f *logFlags) newLogger(c *cli) zerolog.Logger {
	zerolog.TimeFieldFormat = time.RFC3339Nano
	zerolog.MessageFieldName = "msg"
	zerolog.ErrorFieldName = "err"
	level, err := zerolog.ParseLevel(f.level.value)
	if err != nil {
		level = zerolog.InfoLevel
	}
	w := c.err
	if f.format.value == "console" || f.format.value == "auto" && isTerminal(c.err) {
		w = zerolog.ConsoleWriter{Out: c.err, NoColor: !c.colors(c.err), TimeFormat: time.TimeOnly}
	}
	return zerolog.New(zerolog.SyncWriter(w)).Level(level).With().Timestamp().Logger()
}
