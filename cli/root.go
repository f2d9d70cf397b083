// Package cli implements the commands of crowsnest, with their flags, output and exit codes. The packages that it
// imports, such as daemon, do the actual work.
package cli

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/prometheus/common/version"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"crowsnest/daemon"
)

// Exit codes of every command.
const (
	exitOK     = 0
	exitFailed = 1 // the command failed, or its input is invalid
	exitUsage  = 2
	exitLint   = 3 // only with --lint-fatal; the lint found a problem
)

// Run executes one command line and returns its exit code. getenv returns the value of an
// environment variable; os.Getenv is such a function.
func Run(args []string, in io.Reader, out, errOut io.Writer, getenv func(string) string) int {
	c := &cli{in: in, out: out, err: errOut, getenv: getenv, name: programName(os.Args[0]), collection: daemon.DelayCollection(getenv)}
	defer c.collection.End()
	root := newRoot(c)
	root.SetArgs(c.pluginArgs(args))
	var err error
	c.called, err = root.ExecuteC()
	return c.exit(err)
}

type cli struct {
	name   string // name by which the program was called
	root   *cobra.Command
	called *cobra.Command // command that was called, or the root command; nil until the command line is parsed
	in     io.Reader
	out    io.Writer // output for results only
	err    io.Writer // output for all other text
	getenv func(string) string
	// started is set after the arguments were parsed. An error before that is a usage error.
	started bool
	// liveOutput says whether the command writes results to the terminal while it runs. A line of progress would
	// disturb them.
	liveOutput bool
	// outlivesInterrupt says whether the process continues after the first Ctrl-C. Ctrl-C also ends the other processes
	// of a shell pipeline, and the process must still report the lines that they wrote before.
	outlivesInterrupt bool
	collection        *daemon.Delay // delay of the first garbage collection
}

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

func exitCode(code int) error { return &exitError{code: code} }

// usageErrorf returns an error about wrong arguments. The program then exits with exitUsage.
func usageErrorf(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

func (c *cli) exit(err error) int {
	if err == nil {
		return exitOK
	}
	if _, ok := errors.AsType[*exitError](err); !ok && c.root != nil {
		err = c.argumentError(err)
	}
	code := exitFailed
	if !c.started {
		code = exitUsage
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		code = e.code
	}
	if msg := err.Error(); msg != "" {
		fmt.Fprintf(c.err, "%s: %s\n", c.name, c.inName(c.root, msg))
	}
	switch {
	case code != exitUsage:
	case c.called != nil && c.called.HasParent():
		fmt.Fprintf(c.err, "Try '%s --help'.\n", c.called.CommandPath())
	default:
		fmt.Fprintf(c.err, "Try '%s --help', or --help after a command.\n", c.name)
	}
	return code
}

func newRoot(c *cli) *cobra.Command {
	c.name = cmp.Or(c.name, ownName)
	root := &cobra.Command{
		Use: "crowsnest", Short: "Find known failures in controller logs and notify Alertmanager",
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
	root.DisableSuggestions = true // argumentError adds suggestions instead
	root.SetFlagErrorFunc(noSuchFlag)
	root.SetVersionTemplate(version.Print("crowsnest") + "\n")
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	root.AddGroup(
		&cobra.Group{ID: "daemon", Title: "Daemon:"},
		&cobra.Group{ID: "logs", Title: "Recorded logs:"},
		&cobra.Group{ID: "rules", Title: "Rules:"},
	)
	add := func(group string, cmds ...*cobra.Command) {
		for _, cmd := range cmds {
			cmd.GroupID = group
			root.AddCommand(cmd)
		}
	}
	add("daemon", newRun(c), newDemo(c), newGet(c), newAlert(c), newMCP(c))
	add("logs", newScan(c), newCase(c), newDiscover(c), newReplay(c), newExplain(c))
	add("rules", newCheck(c), newTest(c), newRules(c), newSchema(c), newExport(c))
	root.AddCommand(newVersion(c))
	root.InitDefaultCompletionCmd()
	c.root = root
	addHelp(root)
	c.rename(root)
	completeValues(root)
	return root
}

//go:embed help
var helpTexts embed.FS

// addHelp sets the long help text and the examples of a command and of its subcommands. They come from the files
// help/COMMAND.txt, in which a line "Examples:" separates them.
func addHelp(cmd *cobra.Command) {
	file := "help/" + strings.ReplaceAll(pathBelowRoot(cmd), " ", "_") + ".txt"
	if data, err := helpTexts.ReadFile(file); err == nil {
		long, example, _ := strings.Cut(string(data), "Examples:\n")
		cmd.Long, cmd.Example = strings.TrimRight(long, "\n"), strings.TrimRight(example, "\n")
	}
	for _, sub := range cmd.Commands() {
		addHelp(sub)
	}
}

func newVersion(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print version, build and platform", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(c.out, version.Print("crowsnest"))
			return err
		},
	}
}

func newParent(use, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return noSuchCommand(cmd, args[0])
		}
		return nil
	}}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return usageErrorf("%s needs a subcommand: %s", pathBelowRoot(cmd), strings.Join(commandNames(cmd), ", "))
	}
	cmd.AddCommand(subs...)
	return cmd
}

func commandNames(cmd *cobra.Command) (out []string) {
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			out = append(out, sub.Name())
		}
	}
	return out
}

// bindEnv sets flags from their environment variables, unless the flags are on the command line.
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

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (c *cli) colors(w io.Writer) bool {
	return c.getenv("NO_COLOR") == "" && c.getenv("TERM") != "dumb" && isTerminal(w)
}

type oneOf struct {
	value   string
	allowed []string
}

func newOneOf(value string, others ...string) *oneOf {
	return &oneOf{value: value, allowed: append([]string{value}, others...)}
}

func (o *oneOf) String() string { return o.value }

func (o *oneOf) Type() string { return strings.Join(o.allowed, "|") }

// completeValues enables shell completion for flags that have a fixed set of values.
func completeValues(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if o, ok := f.Value.(*oneOf); ok {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(o.allowed, cobra.ShellCompDirectiveNoFileComp)) // can fail only if a function is already registered
		}
	})
	for _, sub := range cmd.Commands() {
		completeValues(sub)
	}
}

func (o *oneOf) Set(s string) error {
	if !slices.Contains(o.allowed, s) {
		return fmt.Errorf("%q is not one of %s%s", s, strings.Join(o.allowed, ", "), suggestion(s, o.allowed))
	}
	o.value = s
	return nil
}
