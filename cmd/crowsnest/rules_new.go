package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"crowsnest/replay"
	"crowsnest/rules"
)

// newRuleFlags are the flags of rules new.
type newRuleFlags struct {
	name      string
	line      string
	pack      string
	container string
	severity  *oneOf
}

func newRulesNew(c *cli) *cobra.Command {
	f := newRuleFlags{severity: newOneOf("warning", "critical", "info")}
	cmd := &cobra.Command{
		Use:   "new ALERT",
		Short: "Start a pack with a rule and its tests from a log line",
		Long: `Prints a pack with one rule that matches the constant text of a log line, and
with a test that fires and one that does not. The line is taken from --line, or
from standard input. What is printed passes check and test; put in what you know.`,
		Example: `  crowsnest rules new LeaseLost --container syncer \
    --line 'E0101 10:00:00.0 1 leaderelection.go:332] leaderelection lost' > leases.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			f.name = args[0]
			return c.rulesNew(f)
		},
	}
	cmd.Flags().StringVar(&f.line, "line", "", "the log `TEXT` that tells of the failure")
	cmd.Flags().StringVar(&f.pack, "pack", "local", "name of the pack")
	cmd.Flags().StringVar(&f.container, "container", "manager", "container whose logs are read")
	cmd.Flags().Var(f.severity, "severity", "severity of the alert")
	return cmd
}

var alertName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

func (c *cli) rulesNew(f newRuleFlags) error {
	if !alertName.MatchString(f.name) {
		return usageErrorf("%q is no name of an alert; use CamelCase letters and digits, such as LeaseLost", f.name)
	}
	line := f.line
	if line == "" {
		var err error
		if line, err = firstLine(c.in); err != nil {
			return err
		}
	}
	line = message(line)
	text := constantText(line)
	if text == "" {
		return fmt.Errorf("the line has no constant text of 8 letters or more to find it by; give another one")
	}
	pack := skeleton(f, line, text)
	if err := tryPack(f.name+".yaml", []byte(pack)); err != nil {
		return fmt.Errorf("no rule could be made of this line, please report it: %w", err)
	}
	_, err := io.WriteString(c.out, pack)
	return err
}

func firstLine(r io.Reader) (string, error) {
	s := bufio.NewScanner(io.LimitReader(r, 64<<10))
	s.Buffer(nil, 64<<10)
	for s.Scan() {
		if strings.TrimSpace(s.Text()) != "" {
			return s.Text(), nil
		}
	}
	return "", errors.Join(errors.New("no line was given; use --line or standard input"), s.Err())
}

// criPrefix is the envelope of a line below /var/log/pods.
var criPrefix = regexp.MustCompile(`^\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d) (stdout|stderr) [FP] `)

// message returns what the program wrote, without the runtime's envelope.
func message(line string) string {
	return strings.TrimSpace(criPrefix.ReplaceAllString(strings.ToValidUTF8(line, "?"), ""))
}

// varying finds what differs from line to line: numbers, names of objects,
// quoted values, times, addresses.
var varying = regexp.MustCompile(`[^\s"':=\[\]{}(),]*[0-9/@][^\s"':=\[\]{}(),]*|["'\\{}\[\]=]+|\b[a-zA-Z_.]+=`)

// constantText returns the longest part of a line that looks the same in every
// line of its kind, "" if none is long enough.
func constantText(line string) string {
	const least = 8
	best := ""
	for _, part := range varying.Split(line, -1) {
		part = strings.Trim(part, " \t:,;.()-")
		if len(part) > len(best) {
			best = part
		}
	}
	if len(best) < least {
		return ""
	}
	return best
}

// skeleton writes the pack.
func skeleton(f newRuleFlags, line, text string) string {
	q := strconv.Quote
	return fmt.Sprintf(`pack: {name: %s, version: 0.1.0, rules: 1, tests: 3}
rules:
- alert: %s
  from: '{container=%s}'
  match: %s
  by: [namespace]
  severity: %s
  annotations:
    summary: "TODO: one sentence that says what is broken, in namespace {{ $labels.namespace }}"
  remediation:
    summary: "TODO: what the on-call does first"
  tests:
  - name: the line fires
    stream: {namespace: default, pod: example-0, container: %s}
    input: [{at: 0s, line: %s}]
    expect:
    - {at: 30s, firing: [{alertname: %s, namespace: default}]}
    - {at: 20m, firing: none}
  - name: another line does not
    stream: {namespace: default, pod: example-0, container: %s}
    input: [{at: 0s, line: "everything is fine"}]
    expect: [{at: 30s, firing: none}]
  - name: the line of another container does not
    stream: {namespace: default, pod: example-0, container: another-container}
    input: [{at: 0s, line: %s}]
    expect: [{at: 30s, firing: none}]
`, f.pack, f.name, q(f.container), q(text), f.severity.value, q(f.container), q(line), f.name, q(f.container), q(line))
}

// tryPack checks and tests a pack.
func tryPack(name string, data []byte) error {
	docs, problems := parseFiles([]rules.File{{Name: name, Data: data}})
	set, found := buildRules(docs, rules.Options{Shipped: true})
	if problems = append(problems, found...); len(problems.Errors()) > 0 {
		return problems.Errors()
	}
	report, err := replay.RunTests(set.Rules, replay.TestOptions{})
	if err != nil {
		return err
	}
	if report.Failed() > 0 {
		var b strings.Builder
		return errors.Join(report.WriteText(&b, false), errors.New(b.String()))
	}
	return nil
}
