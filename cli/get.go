package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"crowsnest/cli/internal/api"
	"crowsnest/cli/internal/show"
)

type getFlags struct {
	url        string
	httpConfig string
	output     *oneOf
}

func newGet(c *cli) *cobra.Command {
	return parent("get", "Query a running daemon",
		newGetKind(c, "alerts [MATCHER]...", "List open alerts; matchers have Alertmanager's syntax", "alerts", show.OpenAlerts),
		newGetKind(c, "episodes [MATCHER]...", "List open and recently resolved episodes", "episodes", show.Episodes),
		newGetKind(c, "rules", "List rules with their health, streams, matches and cost", "rules", show.Rules),
		newGetUnknown(c),
		newGetKind(c, "sources", "List sources and receivers", "sources", show.Sources),
	)
}

func (f *getFlags) add(cmd *cobra.Command, url string) {
	cmd.Flags().StringVar(&f.url, "url", url, "`ADDRESS` of the daemon")
	cmd.Flags().StringVar(&f.httpConfig, "http.config.file", "", "TLS and credentials for the daemon: a `FILE` with Prometheus' http_config")
}

// newGetKind returns a command that prints one endpoint of the API.
func newGetKind(c *cli, use, short, path string, text func(io.Writer, []byte) error) *cobra.Command {
	f := getFlags{output: newOneOf("text", "json")}
	cmd := &cobra.Command{
		Use: use, Short: short,
		Example: "  crowsnest get alerts --url http://localhost:9797 severity=critical 'namespace=~\"team-.*\"'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && !strings.Contains(use, "MATCHER") {
				return usageErrorf("get %s accepts no matchers", path)
			}
			data, err := f.fetch(cmd.Context(), path, args)
			if err != nil {
				return err
			}
			if f.output.value == "json" {
				_, err := fmt.Fprintf(c.out, "%s\n", data)
				return err
			}
			return text(c.out, data)
		},
	}
	f.add(cmd, api.DefaultAddress)
	cmd.Flags().VarP(f.output, "output", "o", "output format")
	return cmd
}

// fetch returns the data of an endpoint of the daemon's API.
func (f getFlags) fetch(ctx context.Context, path string, matchers []string) ([]byte, error) {
	client, err := f.client()
	if err != nil {
		return nil, err
	}
	return client.Get(ctx, path, url.Values{"filter": matchers})
}

func (f getFlags) client() (*api.Client, error) {
	client, err := api.New(f.url, f.httpConfig)
	if errors.Is(err, api.ErrAddress) {
		return nil, usageErrorf("%v", err)
	}
	return client, err
}
