package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"crowsnest/cli/internal/api"
	"crowsnest/cli/internal/show"
	"crowsnest/internal/lazyre"
	"crowsnest/internal/text"
	"crowsnest/matcher"
	"crowsnest/rules"
)

type explainFlags struct {
	rules   ruleFlags
	line    string
	labels  []string
	redact  bool
	episode string
	daemon  getFlags
}

func newExplain(c *cli) *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain [flags] [RULE]",
		Short: "Explain a rule, why a line matches it or not, or what happened to an episode",
		Long: `Without --line it prints what a rule matches and what to do about it.
With --line it explains for each part of the rule why the line matches or not;
without a rule, it prints the rules that match. With --label image=REPOSITORY:TAG
it also says whether that version is known to have the failure.

With --episode it prints the timeline of an open or recently ended episode of a
running daemon: counted lines, periods on hold, notifications and the answers of
the receivers, and what ended it. get episodes lists the fingerprints.`,
		Example: `  crowsnest explain LeaderElectionLost
  crowsnest explain --line 'E0101 leaderelection.go:332] leaderelection lost' --label container=syncer
  crowsnest explain --episode 537bf7c41283cad8 --url http://localhost:9797`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.episode != "" {
				return c.explainEpisode(cmd.Context(), f, args)
			}
			return c.explain(f, args)
		},
	}
	f.rules.add(cmd)
	cmd.Flags().StringVar(&f.line, "line", "", "explain why this `TEXT` matches or not")
	cmd.Flags().StringArrayVar(&f.labels, "label", nil, "label of the line's stream, `name=value` (repeatable)")
	cmd.Flags().BoolVar(&f.redact, "redact", true, "redact secrets in the output")
	cmd.Flags().StringVar(&f.episode, "episode", "", "print the timeline of the episode with this `FINGERPRINT`")
	f.daemon.add(cmd, api.DefaultAddress)
	return cmd
}

func (c *cli) explain(f explainFlags, args []string) error {
	labels, err := parseLabels(f.labels)
	if err != nil {
		return err
	}
	if len(args) == 0 && f.line == "" {
		return usageErrorf("explain needs a rule, --line or --episode")
	}
	set, err := f.rules.load(c)
	if err != nil {
		return err
	}
	chosen := set.Rules
	if len(args) == 1 {
		r, err := show.Find(set, args[0])
		if err != nil {
			return err
		}
		chosen = []*rules.Rule{r}
	}
	if f.line == "" {
		if err := show.Rule(c.out, chosen[0]); err != nil {
			return err
		}
		return c.judge(chosen[0], labels)
	}
	return c.explainLine(chosen, labels, f, len(args) == 1)
}

func (c *cli) explainLine(chosen []*rules.Rule, labels matcher.Labels, f explainFlags, all bool) error {
	matched := 0
	var hide show.Veil
	if f.redact {
		hide = show.NewVeil(f.line)
	}
	for _, r := range chosen {
		e := matcher.Explain(r, labels, []byte(f.line))
		hide.Explanation(&e)
		if e.Matches() {
			matched++
		} else if !all {
			continue
		}
		if _, err := fmt.Fprintln(c.out, e.String()); err != nil {
			return err
		}
		if err := c.judge(r, labels); err != nil {
			return err
		}
	}
	if matched == 0 {
		if !all {
			fmt.Fprintf(c.err, "none of %s matches this line\n", text.Plural(len(chosen), "rule"))
		}
		return exitCode(exitFailed)
	}
	return nil
}

// judge prints whether the image of the stream is known to have the failure.
func (c *cli) judge(r *rules.Rule, labels matcher.Labels) error {
	image := labels["image"]
	if image == "" || len(r.Remediation.Affects) == 0 {
		return nil
	}
	v := r.Remediation.Judge(image)
	_, err := fmt.Fprintf(c.out, "affected: %s: %s\n", v.Affected, v.Text)
	return err
}

var fingerprintText = lazyre.New(`^[0-9a-f]{16}$`)

func (c *cli) explainEpisode(ctx context.Context, f explainFlags, args []string) error {
	if len(args) > 0 || f.line != "" {
		return usageErrorf("--episode cannot be combined with a rule or --line")
	}
	if !fingerprintText.MatchString(f.episode) {
		return usageErrorf("--episode %q is not a fingerprint of 16 hexadecimal digits; list them with crowsnest get episodes", f.episode)
	}
	data, err := f.daemon.fetch(ctx, "episodes/"+f.episode+"/timeline")
	if err != nil {
		return err
	}
	return show.Timeline(c.out, data)
}
