package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"crowsnest/cli/internal/api"
	"crowsnest/cli/internal/show"
	"crowsnest/internal/lazyre"
)

// httpConfigFlag names the file with the settings of the HTTP client. promtool has the same
// flag.
const httpConfigFlag = "http.config.file"

type getFlags struct {
	url        string
	httpConfig string
	output     *oneOf
}

func newGet(c *cli) *cobra.Command {
	return newParent("get", "Query a running daemon",
		newGetKind(c, getKind{
			use: "alerts [MATCHER|FINGERPRINT]...", short: "List open alerts; matchers have Alertmanager's syntax",
			path: "alerts", listed: "episodes", list: show.OpenAlerts, matchers: true,
			example: `  crowsnest get alerts severity=critical 'namespace=~"team-.*"'
  crowsnest get alerts -o wide --url http://localhost:9797
  watch crowsnest get alerts`,
		}),
		newGetKind(c, getKind{
			use: "episodes [MATCHER|FINGERPRINT]...", short: "List open and recently resolved episodes",
			path: "episodes", list: show.EpisodeTables, matchers: true,
			example: "  crowsnest get episodes alertname=EtcdOutOfSpace",
		}),
		newGetEpisode(c),
		newGetHistory(c),
		newGetKind(c, getKind{
			use: "rules", short: "List rules with their health, streams, matches and cost",
			path: "rules", list: show.RuleTables, example: "  crowsnest get rules -o wide",
		}),
		newGetUnknown(c),
		newGetKind(c, getKind{
			use: "sources", short: "List sources and receivers",
			path: "sources", list: show.SourceTables, example: "  crowsnest get sources -o wide",
		}),
		newGetStatus(c),
	)
}

func (f *getFlags) add(cmd *cobra.Command, url string) {
	cmd.Flags().StringVar(&f.url, "url", url, "`ADDRESS` of the daemon")
	cmd.Flags().StringVar(&f.httpConfig, httpConfigFlag, "", "TLS and credentials for the daemon: a `FILE` with Prometheus' http_config")
}

// getKind is one kind of object that a daemon can list.
type getKind struct {
	use, short, example string
	path                string // path of the request below the API
	listed              string // API path whose response is listed; "" means path
	list                show.Lister
	matchers            bool // whether the arguments are matchers
}

// newGetKind returns a command that prints the answer of one endpoint of the API.
func newGetKind(c *cli, kind getKind) *cobra.Command {
	f := getFlags{output: newOneOf("text", "wide", "json")}
	cmd := &cobra.Command{
		Use: kind.use, Short: kind.short, Long: kind.short + ".\n\n" + listText, Example: kind.example,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && !kind.matchers {
				return usageErrorf("get %s accepts no matchers", kind.path)
			}
			return c.get(cmd.Context(), f, kind, selectionValues(args))
		},
	}
	f.add(cmd, api.DefaultAddress)
	f.addList(cmd)
	return cmd
}

const listText = `AGE is the time since an entry began. -o wide adds columns. To repeat the list, use
the command watch: watch crowsnest get alerts.`

// addList adds the flags that all listing commands have.
func (f *getFlags) addList(cmd *cobra.Command) {
	cmd.Flags().VarP(f.output, "output", "o", "output format")
}

// selectionValues returns the query parameters for arguments that are matchers or fingerprints.
func selectionValues(args []string) url.Values {
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
	path := cmp.Or(kind.listed, kind.path)
	if f.output.value == "json" {
		path = kind.path
	}
	data, err := f.queryData(ctx, path, query)
	if err != nil {
		return err
	}
	if f.output.value == "json" {
		_, err = fmt.Fprintf(c.out, "%s\n", data)
		return err
	}
	tables, err := kind.list(data, c.listStyle(f))
	if err != nil {
		return err
	}
	return show.Write(c.out, tables, c.listStyle(f))
}

func (c *cli) listStyle(f getFlags) show.ListStyle {
	return show.ListStyle{Color: c.colors(c.out), Wide: f.output.value == "wide", Now: time.Now()}
}

// fetchData requests an endpoint of the daemon's API that takes no parameters, and returns its
// data.
func (f getFlags) fetchData(ctx context.Context, path string) ([]byte, error) {
	return f.queryData(ctx, path, nil)
}

// queryData requests an endpoint of the daemon's API with query parameters, and returns its
// data.
func (f getFlags) queryData(ctx context.Context, path string, query url.Values) ([]byte, error) {
	client, err := f.newClient()
	if err != nil {
		return nil, err
	}
	return client.Get(ctx, path, query)
}

func (f getFlags) newClient() (*api.Client, error) {
	client, err := api.New(f.url, f.httpConfig)
	if errors.Is(err, api.ErrAddress) {
		return nil, usageErrorf("%v", err)
	}
	return client, err
}

func newGetHistory(c *cli) *cobra.Command {
	f := getFlags{output: newOneOf("text", "wide", "json")}
	since, until := &instant{before: periodVar(new(time.Duration), 0, 10*year)}, &instant{}
	var after string
	var limit int
	cmd := &cobra.Command{
		Use:   "history [MATCHER|FINGERPRINT|WORD]...",
		Short: "List ended alerts of the last 30 days, the newest first, and the noisy rules",
		Long: `Lists the ended alerts that the daemon remembers, the newest first, and the rules with
the most notifications and flaps. A flap is an alert that fires again within an hour of
its end. Matchers have Alertmanager's syntax; other words select the alerts whose name,
labels or summary contain them.`,
		Example: `  crowsnest get history
  crowsnest get history --since 7d etcd severity=critical
  crowsnest get history -o wide 0f3a61c2b4d5e6f7`,
		RunE: func(cmd *cobra.Command, args []string) error {
			q := searchValues(args)
			for name, value := range map[string]string{"from": since.text, "to": until.text, "after": after, "limit": strconv.Itoa(limit)} {
				if value != "" {
					q.Set(name, value)
				}
			}
			data, err := f.queryData(cmd.Context(), "history", q)
			if err != nil {
				return err
			}
			if f.output.value == "json" {
				_, err := fmt.Fprintf(c.out, "%s\n", data)
				return err
			}
			return show.WriteHistory(c.out, data, c.listStyle(f))
		},
	}
	f.add(cmd, api.DefaultAddress)
	flags := cmd.Flags()
	flags.Var(since, "since", "only alerts that were open after this: a duration before now, or an RFC 3339 time")
	flags.Var(until, "until", "only alerts that began before this RFC 3339 time")
	flags.Var(numberVar(&limit, 100, 0, 1000), "limit", "maximum number of alerts")
	flags.StringVar(&after, "after", "", "show the page after another one: `NEXT` is the value of next in the JSON of that page")
	flags.VarP(f.output, "output", "o", "output format")
	return cmd
}

var matcherText = lazyre.New(`^\{|^\s*[a-zA-Z_:][a-zA-Z0-9_:]*\s*(=|!=|=~|!~)`)

// searchValues returns the query parameters for arguments that are matchers, fingerprints or
// words.
func searchValues(args []string) url.Values {
	q := url.Values{}
	for _, a := range args {
		switch {
		case fingerprintForm.MatchString(a):
			q.Add("fingerprint", a)
		case matcherText.MatchString(a):
			q.Add("filter", a)
		default:
			q.Add("q", a)
		}
	}
	return q
}

func newGetEpisode(c *cli) *cobra.Command {
	f := getFlags{output: newOneOf("text", "json")}
	cmd := &cobra.Command{
		Use:   "episode FINGERPRINT",
		Short: "Show one episode: what happened when, who was notified, how often it was seen before",
		Long: `Shows the newest episode of an alert, open or remembered. The fingerprint is the one that
the pages show or the one in Alertmanager, which includes external labels.`,
		Example: "  crowsnest get episode 0f3a61c2b4d5e6f7",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !fingerprintForm.MatchString(args[0]) {
				return usageErrorf("%q is not a fingerprint of 16 hexadecimal digits; list them with crowsnest get episodes", args[0])
			}
			timeline, err := f.fetchData(cmd.Context(), "episodes/"+args[0]+"/timeline")
			if err != nil {
				return err
			}
			if f.output.value == "json" {
				_, err := fmt.Fprintf(c.out, "%s\n", timeline)
				return err
			}
			return show.WriteTimeline(c.out, timeline)
		},
	}
	f.add(cmd, api.DefaultAddress)
	cmd.Flags().VarP(f.output, "output", "o", "output format")
	return cmd
}

// statusParts are the endpoints whose data the web page Status shows.
var statusParts = []string{"buildinfo", "runtimeinfo", "config", "flags"}

func newGetStatus(c *cli) *cobra.Command {
	f := getFlags{output: newOneOf("text", "json")}
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show version, readiness, saved state, configuration and flags",
		Example: "  crowsnest get status -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := map[string]json.RawMessage{}
			for _, part := range statusParts {
				data, err := f.fetchData(cmd.Context(), "status/"+part)
				if err != nil {
					return err
				}
				out[part] = data
			}
			if f.output.value == "json" {
				return show.JSON(c.out, out, true)
			}
			return show.WriteStatus(c.out, out)
		},
	}
	f.add(cmd, api.DefaultAddress)
	cmd.Flags().VarP(f.output, "output", "o", "output format")
	return cmd
}

func newGetUnknown(c *cli) *cobra.Command {
	f := getFlags{output: newOneOf("text", "wide", "json", "rule")}
	cmd := &cobra.Command{
		Use:   "unknown [FINGERPRINT]",
		Short: "List failures that no rule describes; with -o rule, print a rule with tests for one",
		Long:  "List failures that no rule describes. With -o rule and a fingerprint, print a rule\nwith tests for one.\n\n" + listText,
		Example: "  crowsnest get unknown\n" +
			"  crowsnest get unknown -o rule 8c1f0de2a94b7730 > new.yaml",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "unknown"
			switch rule := f.output.value == "rule"; {
			case rule && len(args) == 0:
				return usageErrorf("get unknown -o rule needs the fingerprint of a failure")
			case !rule && len(args) > 0:
				return usageErrorf("get unknown accepts a fingerprint only with -o rule")
			case rule:
				path += "/" + args[0] + "/rule"
			}
			if f.output.value != "rule" {
				return c.get(cmd.Context(), f, getKind{path: path, list: show.UnknownFailures}, nil)
			}
			data, err := f.fetchData(cmd.Context(), path)
			if err != nil {
				return err
			}
			var answer struct{ Pack string }
			if err := json.Unmarshal(data, &answer); err != nil {
				return err
			}
			_, err = io.WriteString(c.out, answer.Pack)
			return err
		},
	}
	f.add(cmd, api.DefaultAddress)
	f.addList(cmd)
	return cmd
}
