package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"crowsnest/cli/internal/api"
	"crowsnest/cli/internal/show"
	"crowsnest/internal/lazyre"
	"crowsnest/web"
)

// httpConfigFlag is the flag for a file with settings of the HTTP client. promtool has the same flag.
const httpConfigFlag = "http.config.file"

type getFlags struct {
	url        string
	httpConfig string
}

func (f *getFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.url, "url", api.DefaultAddress, "`ADDRESS` of the daemon")
	cmd.Flags().StringVar(&f.httpConfig, httpConfigFlag, "", "TLS and credentials for the daemon: a `FILE` with Prometheus' http_config")
}

func (f getFlags) newClient() (*api.Client, error) {
	client, err := api.New(f.url, f.httpConfig)
	if errors.Is(err, api.ErrAddress) {
		return nil, usageErrorf("%v", err)
	}
	return client, err
}

// fetchData requests an endpoint of the daemon's API, and returns its data. query may be nil.
func (f getFlags) fetchData(ctx context.Context, path string, query url.Values) ([]byte, error) {
	client, err := f.newClient()
	if err != nil {
		return nil, err
	}
	return client.Get(ctx, path, query)
}

type getKind struct {
	use, short string
	args       cobra.PositionalArgs
	forms      []getForm // allowed values of --output; the first one is the default
	flags      func(flags *pflag.FlagSet)
	fetch      func(get apiGet, form string, args []string) ([]byte, error)
}

// getForm is an output format. A nil function write means that the data are printed as the API returns them.
type getForm struct {
	name  string
	write show.List
}

// apiGet requests an endpoint of the API, and returns its data.
type apiGet func(path string, query url.Values) ([]byte, error)

func listForms(list show.List) []getForm {
	return []getForm{{"text", list}, {"wide", list}, {"json", nil}}
}

func newGet(c *cli) *cobra.Command {
	alerts := getKind{
		use: "alerts [MATCHER|FINGERPRINT]...", short: "List open alerts; matchers have Alertmanager's syntax",
		forms: listForms(show.OpenAlerts),
		fetch: func(get apiGet, form string, args []string) ([]byte, error) {
			if form == "json" {
				return get("alerts", searchValues(args, "filter"))
			}
			return get("episodes", searchValues(args, "filter"))
		},
	}
	episodes := getKind{
		use: "episodes [MATCHER|FINGERPRINT]...", short: "List open and recently resolved episodes",
		forms: listForms(show.EpisodeTables),
		fetch: func(get apiGet, _ string, args []string) ([]byte, error) {
			return get("episodes", searchValues(args, "filter"))
		},
	}
	rules := getKind{
		use: "rules", short: "List rules with their health, streams, matches and cost",
		forms: listForms(show.RuleTables), fetch: fetchAll("rules"),
	}
	sources := getKind{
		use: "sources", short: "List sources and receivers",
		forms: listForms(show.SourceTables), fetch: fetchAll("sources"),
	}
	return newParent("get", "Query a running daemon",
		newGetKind(c, alerts), newGetKind(c, episodes), newGetKind(c, episodeKind()), newGetKind(c, historyKind()),
		newGetKind(c, rules), newGetKind(c, unknownKind()), newGetKind(c, sources), newGetKind(c, statusKind()))
}

func newGetKind(c *cli, kind getKind) *cobra.Command {
	var f getFlags
	output := &oneOf{value: kind.forms[0].name}
	write := map[string]show.List{}
	for _, form := range kind.forms {
		output.allowed = append(output.allowed, form.name)
		write[form.name] = form.write
	}
	cmd := &cobra.Command{
		Use: kind.use, Short: kind.short, Args: kind.args,
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := kind.fetch(func(path string, query url.Values) ([]byte, error) {
				return f.fetchData(cmd.Context(), path, query)
			}, output.value, args)
			if err != nil {
				return err
			}
			if write[output.value] == nil {
				_, err = fmt.Fprintf(c.out, "%s\n", data)
				return err
			}
			return write[output.value](c.out, data, show.ListStyle{Color: c.colors(c.out), Wide: output.value == "wide", Now: time.Now()})
		},
	}
	f.add(cmd)
	cmd.Flags().VarP(output, "output", "o", "output format")
	if kind.flags != nil {
		kind.flags(cmd.Flags())
	}
	return cmd
}

func fetchAll(path string) func(get apiGet, form string, args []string) ([]byte, error) {
	return func(get apiGet, _ string, args []string) ([]byte, error) {
		if len(args) > 0 {
			return nil, usageErrorf("get %s accepts no matchers", path)
		}
		return get(path, nil)
	}
}

var matcherText = lazyre.New(`^\{|^\s*[a-zA-Z_:][a-zA-Z0-9_:]*\s*(=|!=|=~|!~)`)

// searchValues converts arguments to query parameters. An argument is a fingerprint, a matcher or a word. words is the
// name of the parameter for words.
func searchValues(args []string, words string) url.Values {
	q := url.Values{}
	for _, a := range args {
		switch {
		case fingerprintForm.MatchString(a):
			q.Add("fingerprint", a)
		case matcherText.MatchString(a):
			q.Add("filter", a)
		default:
			q.Add(words, a)
		}
	}
	return q
}

func historyKind() getKind {
	since, until := &instant{before: periodVar(new(time.Duration), 0, 10*year)}, &instant{}
	var after string
	var limit int
	return getKind{
		use:   "history [MATCHER|FINGERPRINT|WORD]...",
		short: "List ended alerts of the last 30 days, the newest first, and the noisy rules",
		forms: listForms(show.WriteHistory),
		flags: func(flags *pflag.FlagSet) {
			flags.Var(since, "since", "only alerts that were open after this: a duration before now, or an RFC 3339 time")
			flags.Var(until, "until", "only alerts that began before this RFC 3339 time")
			flags.Var(numberVar(&limit, 100, 0, 1000), "limit", "maximum number of alerts")
			flags.StringVar(&after, "after", "", "show the page after another one: `NEXT` is the value of next in the JSON of that page")
		},
		fetch: func(get apiGet, _ string, args []string) ([]byte, error) {
			q := searchValues(args, "q")
			for name, value := range map[string]string{"from": since.text, "to": until.text, "after": after, "limit": strconv.Itoa(limit)} {
				if value != "" {
					q.Set(name, value)
				}
			}
			return get("history", q)
		},
	}
}

func episodeKind() getKind {
	return getKind{
		use:   "episode FINGERPRINT",
		short: "Show one episode: what happened when, who was notified, how often it was seen before",
		args:  cobra.ExactArgs(1),
		forms: []getForm{{"text", show.WriteTimeline}, {"json", nil}},
		fetch: func(get apiGet, _ string, args []string) ([]byte, error) {
			if !fingerprintForm.MatchString(args[0]) {
				return nil, usageErrorf("%q is not a fingerprint of 16 hexadecimal digits; list them with crowsnest get episodes", args[0])
			}
			return get("episodes/"+args[0]+"/timeline", nil)
		},
	}
}

func statusKind() getKind {
	return getKind{
		use: "status", short: "Show version, readiness, saved state, configuration and flags",
		args:  cobra.NoArgs,
		forms: []getForm{{"text", show.WriteStatus}, {"json", nil}},
		fetch: func(get apiGet, _ string, _ []string) ([]byte, error) {
			all := map[string]json.RawMessage{}
			for _, part := range []string{"buildinfo", "runtimeinfo", "config", "flags"} {
				data, err := get("status/"+part, nil)
				if err != nil {
					return nil, err
				}
				all[part] = data
			}
			var b bytes.Buffer
			err := show.JSON(&b, all, true)
			return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
		},
	}
}

func unknownKind() getKind {
	return getKind{
		use:   "unknown [FINGERPRINT]",
		short: "List failures that no rule describes; with -o rule, print a rule with tests for one",
		args:  cobra.MaximumNArgs(1),
		forms: append(listForms(show.UnknownFailures), getForm{"rule", writeRulePack}),
		fetch: func(get apiGet, form string, args []string) ([]byte, error) {
			switch rule := form == "rule"; {
			case rule && len(args) == 0:
				return nil, usageErrorf("get unknown -o rule needs the fingerprint of a failure")
			case !rule && len(args) > 0:
				return nil, usageErrorf("get unknown accepts a fingerprint only with -o rule")
			case rule:
				return get("unknown/"+args[0]+"/rule", nil)
			}
			return get("unknown", nil)
		},
	}
}

func writeRulePack(w io.Writer, data []byte, _ show.ListStyle) error {
	var answer web.RulePack
	if err := json.Unmarshal(data, &answer); err != nil {
		return err
	}
	_, err := io.WriteString(w, answer.Pack)
	return err
}
