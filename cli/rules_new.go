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
		Args:  cobra.MaximumNArgs(1),
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
	s, err = discover.FirstPassing(discover.Propose(line), s, tryNew)
	if err != nil {
		return err
	}
	_, err = io.WriteString(c.out, discover.Skeleton(f.pack, []discover.RuleSkeleton{s}))
	return err
}

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
