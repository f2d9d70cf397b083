package cli

import (
	"encoding/json"
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
			q := searched(args)
			for name, value := range map[string]string{"from": since.text, "to": until.text, "after": after, "limit": strconv.Itoa(limit)} {
				if value != "" {
					q.Set(name, value)
				}
			}
			data, err := f.query(cmd.Context(), "history", q)
			if err != nil {
				return err
			}
			if f.output.value == "json" {
				_, err := fmt.Fprintf(c.out, "%s\n", data)
				return err
			}
			return show.History(c.out, data, c.listStyle(f))
		},
	}
	f.add(cmd, api.DefaultAddress)
	flags := cmd.Flags()
	flags.Var(since, "since", "only alerts that were open after this: a duration before now, or an RFC 3339 time")
	flags.Var(until, "until", "only alerts that began before this RFC 3339 time")
	flags.Var(numberVar(&limit, 100, 0, 1000), "limit", "maximum number of alerts")
	flags.StringVar(&after, "after", "", "continue a list: `NEXT` is what -o json of the previous page has as next")
	flags.VarP(f.output, "output", "o", "output format")
	return cmd
}

var matcherText = lazyre.New(`^\{|^\s*[a-zA-Z_:][a-zA-Z0-9_:]*\s*(=|!=|=~|!~)`)

// searched returns the parameters for arguments that are matchers, fingerprints or words.
func searched(args []string) url.Values {
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
			timeline, err := f.fetch(cmd.Context(), "episodes/"+args[0]+"/timeline")
			if err != nil {
				return err
			}
			if f.output.value == "text" {
				return show.Timeline(c.out, timeline)
			}
			episode, err := f.fetch(cmd.Context(), "episodes/"+args[0])
			if err != nil {
				return err
			}
			return writeMerged(c.out, timeline, episode)
		},
	}
	f.add(cmd, api.DefaultAddress)
	cmd.Flags().VarP(f.output, "output", "o", "output format")
	return cmd
}

// writeMerged writes a timeline with the receivers' newest answers.
func writeMerged(w io.Writer, timeline, episode []byte) error {
	var out map[string]json.RawMessage
	if err := json.Unmarshal(timeline, &out); err != nil {
		return err
	}
	var answers struct {
		Deliveries json.RawMessage `json:"deliveries"`
	}
	if err := json.Unmarshal(episode, &answers); err != nil {
		return err
	}
	out["deliveries"] = answers.Deliveries
	return show.JSON(w, out, true)
}

// statusParts are the endpoints that the page Status shows.
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
				data, err := f.fetch(cmd.Context(), "status/"+part)
				if err != nil {
					return err
				}
				out[part] = data
			}
			if f.output.value == "json" {
				return show.JSON(c.out, out, true)
			}
			return show.Status(c.out, out)
		},
	}
	f.add(cmd, api.DefaultAddress)
	cmd.Flags().VarP(f.output, "output", "o", "output format")
	return cmd
}
