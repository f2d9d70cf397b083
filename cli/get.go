package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	commonconfig "github.com/prometheus/common/config"
	"github.com/spf13/cobra"

	"crowsnest/cli/internal/show"
)

type getFlags struct {
	url        string
	httpConfig string
	output     *oneOf
}

func newGet(c *cli) *cobra.Command {
	return parent("get", "Query a running daemon",
		newGetKind(c, "alerts [MATCHER|FINGERPRINT]...", "List open alerts; matchers have Alertmanager's syntax", "alerts", show.OpenAlerts),
		newGetKind(c, "episodes [MATCHER|FINGERPRINT]...", "List open and recently resolved episodes", "episodes", show.Episodes),
		newGetEpisode(c),
		newGetHistory(c),
		newGetKind(c, "rules", "List rules with their health, streams, matches and cost", "rules", show.Rules),
		newGetUnknown(c),
		newGetKind(c, "sources", "List sources and receivers", "sources", show.Sources),
		newGetStatus(c),
	)
}

const defaultURL = "http://localhost:9797"

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
			data, err := c.query(cmd.Context(), f, path, selection(args))
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
	f.add(cmd, defaultURL)
	cmd.Flags().VarP(f.output, "output", "o", "output format")
	return cmd
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

// fetch returns the data of an endpoint of the API without parameters.
func (c *cli) fetch(ctx context.Context, f getFlags, path string) ([]byte, error) {
	return c.query(ctx, f, path, nil)
}

func (c *cli) query(ctx context.Context, f getFlags, path string, q url.Values) ([]byte, error) {
	base, err := url.Parse(strings.TrimRight(f.url, "/"))
	if err != nil || base.Host == "" {
		return nil, usageErrorf("--url %q is not a URL; use a value such as http://localhost:9797", f.url)
	}
	u := base.JoinPath("/api/v1/", path)
	u.RawQuery = q.Encode()
	client, err := httpClient(f.httpConfig)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("query the daemon at %s (is it running there?): %w", base.Redacted(), errors.Unwrap(err))
	}
	defer res.Body.Close()
	return readEnvelope(res)
}

func httpClient(file string) (*http.Client, error) {
	cfg := &commonconfig.HTTPClientConfig{}
	if file != "" {
		var err error
		if cfg, _, err = commonconfig.LoadHTTPConfigFile(file); err != nil {
			return nil, fmt.Errorf("read --http.config.file: %w", err)
		}
	}
	cfg.FollowRedirects = false
	return commonconfig.NewClientFromConfig(*cfg, "crowsnest")
}

func readEnvelope(res *http.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(res.Body, 64<<20))
	if err != nil {
		return nil, fmt.Errorf("read the response: %w", err)
	}
	var env struct {
		Status string          `json:"status"`
		Error  string          `json:"error"`
		Data   json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(body, &env); err != nil {
		return nil, fmt.Errorf("the response is not from crowsnest: %s", res.Status)
	}
	if env.Status != "success" {
		return nil, fmt.Errorf("the daemon returned an error: %s", env.Error)
	}
	return env.Data, nil
}
