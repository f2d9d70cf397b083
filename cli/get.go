package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"crowsnest/cli/internal/api"
	"crowsnest/cli/internal/show"
)

// httpConfigFlag names the file with the settings of a client, as of promtool.
const httpConfigFlag = "http.config.file"

type getFlags struct {
	url        string
	httpConfig string
	output     *oneOf
	watch      bool
}

func newGet(c *cli) *cobra.Command {
	return parent("get", "Query a running daemon",
		newGetKind(c, getKind{
			use: "alerts [MATCHER|FINGERPRINT]...", short: "List open alerts; matchers have Alertmanager's syntax",
			path: "alerts", listed: "episodes", list: show.OpenAlerts, matchers: true,
			example: `  crowsnest get alerts severity=critical 'namespace=~"team-.*"'
  crowsnest get alerts -o wide --url http://localhost:9797
  crowsnest get alerts --watch`,
		}),
		newGetKind(c, getKind{
			use: "episodes [MATCHER|FINGERPRINT]...", short: "List open and recently resolved episodes",
			path: "episodes", list: show.Episodes, matchers: true,
			example: "  crowsnest get episodes alertname=EtcdOutOfSpace\n  crowsnest get episodes --watch",
		}),
		newGetEpisode(c),
		newGetHistory(c),
		newGetKind(c, getKind{
			use: "rules", short: "List rules with their health, streams, matches and cost",
			path: "rules", list: show.Rules, example: "  crowsnest get rules -o wide",
		}),
		newGetUnknown(c),
		newGetKind(c, getKind{
			use: "sources", short: "List sources and receivers",
			path: "sources", list: show.Sources, example: "  crowsnest get sources --watch",
		}),
		newGetStatus(c),
	)
}

func (f *getFlags) add(cmd *cobra.Command, url string) {
	cmd.Flags().StringVar(&f.url, "url", url, "`ADDRESS` of the daemon")
	cmd.Flags().StringVar(&f.httpConfig, httpConfigFlag, "", "TLS and credentials for the daemon: a `FILE` with Prometheus' http_config")
}

// getKind is one kind of things that a daemon can list.
type getKind struct {
	use, short, example string
	path                string // path of the request below the API
	listed              string // path whose response is listed; "" means path
	list                show.Lister
	matchers            bool // arguments are matchers
}

// newGetKind returns a command that prints one endpoint of the API.
func newGetKind(c *cli, kind getKind) *cobra.Command {
	f := getFlags{output: newOneOf("text", "wide", "json")}
	cmd := &cobra.Command{
		Use: kind.use, Short: kind.short, Long: kind.short + ".\n\n" + watchText, Example: kind.example,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && !kind.matchers {
				return usageErrorf("get %s accepts no matchers", kind.path)
			}
			return c.get(cmd.Context(), f, kind, selection(args))
		},
	}
	f.add(cmd, api.DefaultAddress)
	f.addList(cmd)
	return cmd
}

const watchText = `AGE is the time since it began. -o wide adds columns. --watch asks the daemon every
two seconds and adds a row for each change, until Ctrl-C.`

// addList adds the flags of lists.
func (f *getFlags) addList(cmd *cobra.Command) {
	cmd.Flags().VarP(f.output, "output", "o", "output format")
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "then print what changes, until Ctrl-C")
}

// selection returns the parameters for arguments that are matchers or fingerprints.
func selection(args []string) url.Values {
	q := url.Values{}
	for _, a := range args {
		if fingerprintForm.MatchString(a) {
			q.Add("fingerprint", a)
		} else {
			q.Add("filter", a)
		}
	}
	return q
}

func (c *cli) get(ctx context.Context, f getFlags, kind getKind, query url.Values) error {
	if f.output.value == "json" {
		if f.watch {
			return usageErrorf("-o json prints one document: it cannot be combined with --watch")
		}
		data, err := f.query(ctx, kind.path, query)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.out, "%s\n", data)
		return err
	}
	ask := func(ctx context.Context) ([]show.Table, error) {
		data, err := f.query(ctx, cmp.Or(kind.listed, kind.path), query)
		if err != nil {
			return nil, err
		}
		return kind.list(data, c.listStyle(f))
	}
	if f.watch {
		return c.watch(ctx, ask, f)
	}
	tables, err := ask(ctx)
	if err != nil {
		return err
	}
	return show.Write(c.out, tables, c.listStyle(f))
}

func (c *cli) listStyle(f getFlags) show.ListStyle {
	return show.ListStyle{Color: c.colors(c.out), Wide: f.output.value == "wide", Now: time.Now()}
}

// askEvery is the interval of the questions of --watch.
const askEvery = 2 * time.Second

// watch prints a list and then its changes, until a signal. While the daemon does not
// answer, it says so once and goes on.
func (c *cli) watch(ctx context.Context, ask func(context.Context) ([]show.Table, error), f getFlags) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	watched := show.Watched{W: c.out}
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for first, down := true, false; ; first = false {
		tables, err := ask(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err
		case err != nil && !down:
			down = true
			fmt.Fprintf(c.err, "%s: %v; still asking\n", time.Now().UTC().Format(time.RFC3339), err)
		case err == nil:
			if down {
				down = false
				fmt.Fprintf(c.err, "%s: the daemon answers again\n", time.Now().UTC().Format(time.RFC3339))
			}
			if err := watched.Update(tables, c.listStyle(f)); err != nil {
				return fmt.Errorf("write the result: %w", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// fetch returns the data of an endpoint of the daemon's API without parameters.
func (f getFlags) fetch(ctx context.Context, path string) ([]byte, error) {
	return f.query(ctx, path, nil)
}

// query returns the data of an endpoint of the daemon's API.
func (f getFlags) query(ctx context.Context, path string, query url.Values) ([]byte, error) {
	client, err := f.client()
	if err != nil {
		return nil, err
	}
	return client.Get(ctx, path, query)
}

func (f getFlags) client() (*api.Client, error) {
	client, err := api.New(f.url, f.httpConfig)
	if errors.Is(err, api.ErrAddress) {
		return nil, usageErrorf("%v", err)
	}
	return client, err
}
