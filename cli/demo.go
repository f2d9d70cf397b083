package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"crowsnest"
	"crowsnest/cli/internal/demo"
	"crowsnest/daemon"
	"crowsnest/daemon/config"
	"crowsnest/lab/scan"
	"crowsnest/sinks/alertmanager"
	"crowsnest/sinks/stdout"
	"crowsnest/sources/kubelet"
)

type demoFlags struct {
	untilDone    bool
	alertmanager string
	timeout      time.Duration
	listen       string
	log          logFlags
}

func newDemo(c *cli) *cobra.Command {
	f := demoFlags{log: newLogFlags()}
	f.log.level = newOneOf("warn", "info", "debug", "error")
	cmd := &cobra.Command{
		Use: "demo", Short: "Replay recorded incidents to a real Alertmanager and show the alerts", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return c.demo(f) },
	}
	cmd.Flags().BoolVar(&f.untilDone, "until-done", false, "exit with 0 once Alertmanager has received every expected alert, with 1 on timeout")
	cmd.Flags().StringVar(&f.alertmanager, "alertmanager", "", "Alertmanager `PROGRAM` to start")
	cmd.Flags().Var(periodVar(&f.timeout, 5*time.Minute, 24*time.Hour), "timeout", "longest time for --until-done")
	cmd.Flags().StringVar(&f.listen, "web.listen-address", "127.0.0.1:0", "`ADDRESS` of the pages; port 0: any free port")
	f.log.add(cmd)
	return cmd
}

func (c *cli) demo(f demoFlags) (err error) {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	say := func(format string, args ...any) { fmt.Fprintf(c.err, format+"\n", args...) }
	stories, err := demo.Load(crowsnest.Incidents())
	if err != nil {
		return err
	}
	bin := f.alertmanager
	if bin == "" {
		if bin, err = demo.Find(c.getenv); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "crowsnest-demo-")
	if err != nil {
		return fmt.Errorf("create a temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	am, err := demo.StartAlertmanager(ctx, bin, filepath.Join(dir, "alertmanager"))
	if err != nil {
		return err
	}
	defer am.Stop()
	return c.playDemo(ctx, f, demoStage{dir: dir, am: am, stories: stories, say: say})
}

type demoStage struct {
	dir     string
	am      *demo.Alertmanager
	stories []demo.Story
	say     func(format string, args ...any)
}

func (c *cli) playDemo(ctx context.Context, f demoFlags, st demoStage) error {
	pods := filepath.Join(st.dir, "pods")
	if err := os.MkdirAll(pods, 0o750); err != nil {
		return err
	}
	play := demo.NewPlay(pods, st.stories, time.Now())
	if err := play.WritePast(); err != nil {
		return err
	}
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return fmt.Errorf("open --web.listen-address: %w", err)
	}
	d, err := daemon.New(daemon.Options{
		Cfg: demoConfig(st, "http://"+l.Addr().String()), Log: f.log.newLogger(c), Listener: l, Stdin: c.in, Stdout: c.out,
		Color: c.colors(c.out), Getenv: func(string) string { return "" }, Scan: scan.ForPage,
	})
	if err != nil {
		return err
	}
	st.say("crowsnest     http://%s", l.Addr())
	st.say("Alertmanager  %s", st.am.URL)
	st.say("pod logs      %s", pods)
	st.say("playing %d incidents as live traffic; alerts fire within about a minute; Ctrl-C ends the demo\n", len(st.stories))

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	daemonDone := make(chan error, 1)
	go func() { daemonDone <- d.Run(ctx) }()
	outcome := make(chan error, 1)
	go func() { outcome <- c.directDemo(ctx, f, st, play) }()
	select {
	case err = <-daemonDone:
		cancel()
		return errors.Join(err, <-outcome)
	case err = <-outcome:
		cancel()
		return errors.Join(err, <-daemonDone)
	}
}

// directDemo plays the incidents until ctx ends. With --until-done, it also ends when it is known whether all expected
// alerts have arrived.
func (c *cli) directDemo(ctx context.Context, f demoFlags, st demoStage, play *demo.Play) error {
	played := make(chan error, 1)
	go func() { played <- play.Live(ctx) }()
	wait, cancel := ctx, context.CancelFunc(func() {})
	if f.untilDone {
		wait, cancel = context.WithTimeout(ctx, f.timeout)
	}
	defer cancel()
	began := time.Now()
	err := st.am.Await(wait, st.stories, func(sentence string) { st.say("%s", sentence) })
	if err == nil {
		st.say("done after %s: Alertmanager received every expected alert and no other", time.Since(began).Round(time.Second))
	}
	if f.untilDone {
		return err
	}
	if err != nil && ctx.Err() == nil {
		st.say("%v", err)
	}
	if err := <-played; err != nil {
		return err
	}
	if ctx.Err() == nil {
		st.say("all incidents have been played; the pages and the alerts stay until Ctrl-C ends the demo")
	}
	<-ctx.Done()
	return nil
}

func demoConfig(st demoStage, externalURL string) *config.Config {
	cfg := config.Default()
	cfg.Global.ExternalURL = externalURL
	cfg.Storage.Path = filepath.Join(st.dir, "state")
	cfg.Sources.Add(&kubelet.Config{Dir: filepath.Join(st.dir, "pods")})
	cfg.Sinks.Add(&stdout.Config{Format: "text"})
	// MinFiring must be longer than the group_wait of the demo's Alertmanager.
	cfg.Sinks.Add(&alertmanager.Config{URLs: []string{st.am.URL}, MinFiring: new(5 * time.Second)})
	return cfg
}
