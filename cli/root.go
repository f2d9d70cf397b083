package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/prometheus/common/version"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// The exit codes of every command.
const (
	exitOK     = 0
	exitFailed = 1 // failed or invalid
	exitUsage  = 2
	exitLint   = 3 // lint findings with --lint-fatal
)

// cli is what commands need of the world around them.
type cli struct {
	in     io.Reader
	out    io.Writer // machine output only
	err    io.Writer // everything else
	getenv func(string) string
	// started tells that the arguments were understood: an error before that
	// is one of usage.
	started bool
}

// exitError ends the program with a code. Its message, if any, is printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exitCode ends the program with a code and without a further message.
func exitCode(code int) error { return &exitError{code: code} }

// usageErrorf reports arguments that make no sense together.
func usageErrorf(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// exit prints what went wrong and returns the exit code.
func (c *cli) exit(err error) int {
	if err == nil {
		return exitOK
	}
	code := exitFailed
	if !c.started {
		code = exitUsage
	}
	var e *exitError
	if errors.As(err, &e) {
		code = e.code
	}
	if msg := err.Error(); msg != "" {
		fmt.Fprintf(c.err, "crowsnest: %s\n", msg)
	}
	if code == exitUsage {
		fmt.Fprintln(c.err, "Try 'crowsnest --help', or --help after a command.")
	}
	return code
}

func newRoot(c *cli) *cobra.Command {
	root := &cobra.Command{
		Use:   "crowsnest",
		Short: "Find known failures in controller logs and tell Alertmanager",
		Long: `crowsnest reads controller logs, finds the lines that known failures leave,
decides which failures are open, and tells Alertmanager.

Every flag can also be set by an environment variable: CROWSNEST_ and the name
in capitals, with _ for dots and dashes (--config.file: CROWSNEST_CONFIG_FILE).
A flag wins over the environment, the environment over the configuration file.

Exit codes: 0 ok, 1 failed or invalid, 2 usage, 3 lint findings (--lint-fatal).`,
		Version:       version.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			if err := c.bindEnv(cmd); err != nil {
				return err
			}
			if err := checkTexts(cmd, args); err != nil {
				return err
			}
			c.started = true
			return nil
		},
	}
	root.SetVersionTemplate(version.Print("crowsnest") + "\n")
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	root.AddGroup(
		&cobra.Group{ID: "daemon", Title: "Daemon:"},
		&cobra.Group{ID: "logs", Title: "Logs at hand:"},
		&cobra.Group{ID: "rules", Title: "Rules:"},
	)
	add := func(group string, cmds ...*cobra.Command) {
		for _, cmd := range cmds {
			cmd.GroupID = group
			root.AddCommand(cmd)
		}
	}
	add("daemon", newRun(c), newDemo(c), newGet(c), newAlert(c))
	add("logs", newScan(c), newDiscover(c), newReplay(c), newExplain(c))
	add("rules", newCheck(c), newTest(c), newRules(c), newSchema(c), newExport(c))
	root.AddCommand(newVersion(c))
	return root
}

// parent makes a command that only has subcommands.
func parent(use, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return usageErrorf("%s needs a subcommand: %s", cmd.CommandPath(), names(cmd))
	}
	cmd.AddCommand(subs...)
	return cmd
}

func names(cmd *cobra.Command) string {
	var out []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			out = append(out, sub.Name())
		}
	}
	return strings.Join(out, ", ")
}

// bindEnv gives the flags that were not stated the value of their environment
// variable.
func (c *cli) bindEnv(cmd *cobra.Command) error {
	var errs []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		value := c.getenv(envName(f.Name))
		if f.Changed || value == "" || f.Name == "help" || f.Name == "version" {
			return
		}
		if err := cmd.Flags().Set(f.Name, value); err != nil {
			errs = append(errs, fmt.Errorf("environment variable %s: %w", envName(f.Name), err))
		}
	})
	return errors.Join(errs...)
}

func envName(flag string) string {
	return "CROWSNEST_" + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(flag))
}

// isTerminal tells whether a person looks at w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// colors tells whether w may be written to in color.
func (c *cli) colors(w io.Writer) bool {
	return c.getenv("NO_COLOR") == "" && c.getenv("TERM") != "dumb" && isTerminal(w)
}

// oneOf is a flag that takes one of a few words.
type oneOf struct {
	value   string
	allowed []string
}

func newOneOf(value string, others ...string) *oneOf {
	return &oneOf{value: value, allowed: append([]string{value}, others...)}
}

// String returns the word.
func (o *oneOf) String() string { return o.value }

// Type names the flag's values in the help text.
func (o *oneOf) Type() string { return strings.Join(o.allowed, "|") }

// Set accepts one of the allowed words.
func (o *oneOf) Set(s string) error {
	for _, a := range o.allowed {
		if s == a {
			o.value = s
			return nil
		}
	}
	return fmt.Errorf("%q is not one of %s", s, strings.Join(o.allowed, ", "))
}

// isTerminalReader tells whether r is a terminal that somebody would type into.
func isTerminalReader(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
