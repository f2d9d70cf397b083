package cli

import (
	"bufio"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"crowsnest/daemon/loader"
	"crowsnest/internal/lazyre"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/unknown/discover"
)

type newRuleFlags struct {
	name      string
	line      string
	pack      string
	container string
	labels    []string
	severity  *oneOf
}

func newRulesNew(c *cli) *cobra.Command {
	f := newRuleFlags{severity: &oneOf{allowed: []string{"critical", "warning", "info"}}}
	cmd := &cobra.Command{
		Use:   "new [ALERT]",
		Short: "Create a pack with a rule and its tests from a log line",
		Long: `Prints a pack with one rule for a log line from --line or from standard input, in
any format that scan reads. The rule matches the constant texts of the message and
of its error. If the line names an object, in a field such as Machine="ns/name" or in
the text, the rule raises one alert per object. The tests of the rule contain the line,
the line with other values, and a line without each text.

A line that reports a wait ("waiting for", "not ready", "retrying") must repeat for 15
minutes.

The pack passes check and test. TODO marks what only you can know: the summary,
the first steps for the on-call and, without --container or --label, the streams.
For a line of a node's journal, use --label unit= or --label identifier=; the program
of a line in the format of syslog is the identifier. Without ALERT, the name comes
from the component and the cause. Secrets of the line are redacted.`,
		Example: `  crowsnest rules new LeaseLost --container syncer \
    --line 'E0101 10:00:00.0 1 leaderelection.go:332] leaderelection lost' > leases.yaml
  kubectl logs deploy/x | grep 'cannot attach' | crowsnest rules new --container x > x.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				f.name = args[0]
			}
			return c.rulesNew(f)
		},
	}
	cmd.Flags().StringVar(&f.line, "line", "", "log line that reports the failure, as `TEXT`")
	cmd.Flags().StringVar(&f.pack, "pack", "local", "`NAME` of the pack")
	cmd.Flags().StringVar(&f.container, "container", "", "`NAME` of the container whose logs the rule reads; the same as --label container=NAME")
	cmd.Flags().StringArrayVar(&f.labels, "label", nil, "label of the line's stream, `name=value` (repeatable)")
	cmd.Flags().Var(f.severity, "severity", "severity of the alert (default: from the level of the line)")
	return cmd
}

var alertName = lazyre.New(`^[A-Za-z][A-Za-z0-9_]*$`)

func (c *cli) rulesNew(f newRuleFlags) error {
	if f.name != "" && !alertName.MatchString(f.name) {
		return usageErrorf("%q is not a valid alert name; use CamelCase letters and digits, such as LeaseLost; a line of a log is the value of --line", f.name)
	}
	labels, err := parseLabels(f.labels)
	if err != nil {
		return err
	}
	if f.container != "" {
		labels["container"] = f.container
	}
	line := f.line
	if line == "" && isTerminal(c.in) {
		return usageErrorf("rules new needs a line of a log, from --line or standard input")
	}
	if line == "" {
		if line, err = firstLine(c.in); err != nil {
			return err
		}
	}
	line = redact.New(nil).String(string(matcher.TextOf([]byte(line))))
	s := discover.RuleSkeleton{Alert: f.name, Severity: f.severity.value, Labels: labels}
	if s.Label, s.Value = discover.SelectorOf(labels); s.Label == "" {
		if name := discover.SyslogIdentifier(line); name != "" {
			labels["identifier"] = name
			s.Label, s.Value = "identifier", name
		}
	}
	s.Component = discover.ComponentOf(labels)
	s, err = discover.Fitting(discover.Propose(line), s, tryNew)
	if err != nil {
		return err
	}
	_, err = io.WriteString(c.out, discover.Skeleton(f.pack, []discover.RuleSkeleton{s}))
	return err
}

// tryNew checks and tests a generated pack.
func tryNew(pack []byte) error { return loader.TryPack("new.yaml", pack) }

func firstLine(r io.Reader) (string, error) {
	s := bufio.NewScanner(io.LimitReader(r, 64<<10))
	s.Buffer(nil, 64<<10)
	for s.Scan() {
		if strings.TrimSpace(s.Text()) != "" {
			return s.Text(), nil
		}
	}
	return "", errors.Join(errors.New("there is no line; use --line or standard input"), s.Err())
}
