package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"crowsnest/strictyaml"
)

const (
	ownName    = "crowsnest"
	pluginName = "kubectl crowsnest"
)

// programName returns the name with which a person calls the program that was started as argv0.
// kubectl starts the file kubectl-NAME as its plugin NAME.
func programName(argv0 string) string {
	base := strings.TrimSuffix(filepath.Base(argv0), ".exe")
	if strings.HasPrefix(base, "kubectl-crowsnest") || strings.HasPrefix(base, "kubectl_crowsnest") {
		return pluginName
	}
	return ownName
}

// pluginArgs returns the arguments to run. A plugin without a command scans the cluster.
func (c *cli) pluginArgs(args []string) []string {
	if c.name != pluginName || len(args) > 0 && (args[0] == "" || args[0][0] != '-' || slices.Contains([]string{"-h", "--help", "-v", "--version"}, args[0])) {
		return args
	}
	return append([]string{"scan", "--cluster"}, args...)
}

// rename replaces the name of the program in the help texts and examples of all commands by the
// name with which it was called.
func (c *cli) rename(root *cobra.Command) {
	if c.name == ownName {
		return
	}
	root.Long = "Without a command it is " + c.name + " scan --cluster, with the same flags.\n\n" + root.Long
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: c.name}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		cmd.Long, cmd.Example = c.inName(root, cmd.Long), c.inName(root, cmd.Example)
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

// inName replaces the name of the program in the command lines of a text.
func (c *cli) inName(root *cobra.Command, text string) string {
	if c.name == ownName || root == nil {
		return text
	}
	names := []string{"--"}
	for _, sub := range root.Commands() {
		names = append(names, sub.Name()+`\b`)
	}
	calls := regexp.MustCompile(`\b(?:kubectl )?` + ownName + ` (` + strings.Join(names, "|") + `)`)
	return calls.ReplaceAllString(text, c.name+" $1")
}

// suggestion returns "; did you mean NAME?" for a probably misspelt name, otherwise "".
func suggestion(name string, names []string) string {
	if best := strictyaml.Closest(name, names); best != "" {
		return "; did you mean " + best + "?"
	}
	return ""
}

func noSuchCommand(cmd *cobra.Command, arg string) error {
	all := commandNames(cmd)
	hint := suggestion(arg, all)
	_, statErr := os.Stat(arg)
	switch {
	case hint != "" || len(all) == 0:
	case !cmd.HasParent() && (statErr == nil || strings.Contains(arg, "/")):
		hint = fmt.Sprintf("; to search a log, use %s scan %s", cmd.CommandPath(), arg)
	default:
		slices.Sort(all)
		hint = "; its commands are " + strings.Join(all, ", ")
	}
	return usageErrorf("unknown command %q for %q%s", arg, cmd.CommandPath(), hint)
}

func (c *cli) argumentError(err error) error {
	if c.started || c.called == nil {
		return err
	}
	if quoted, ok := strings.CutPrefix(err.Error(), "unknown command "); ok {
		quoted, _ := strconv.QuotedPrefix(quoted)
		arg, _ := strconv.Unquote(quoted)
		if c.called.HasSubCommands() {
			return noSuchCommand(c.called, arg)
		}
		return usageErrorf("%s takes no arguments%s", pathBelowRoot(c.called), meantFlag(c.called, arg))
	}
	if strings.Contains(err.Error(), " arg(s), ") {
		return usageErrorf("%s %s; usage: %s", pathBelowRoot(c.called), strings.ReplaceAll(err.Error(), "arg(s)", "argument(s)"), c.called.UseLine())
	}
	return err
}

// pathBelowRoot returns the names of a command and its parents, except for the program.
func pathBelowRoot(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().CommandPath()+" ")
}

// meantFlag returns the hint "; did you mean --FLAG=ARG?" if arg, which was passed as an
// argument, is an allowed value of a flag. Otherwise it returns "".
func meantFlag(cmd *cobra.Command, arg string) string {
	for _, flag := range []string{"config.file", "rules"} {
		if cmd.Flags().Lookup(flag) != nil {
			return fmt.Sprintf("; did you mean --%s=%s?", flag, arg)
		}
	}
	return ""
}

// noSuchFlag adds to an error about an unknown flag the flag that was probably meant.
func noSuchFlag(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || len(unknown.GetSpecifiedName()) < 2 {
		return err
	}
	var all []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			all = append(all, f.Name)
		}
	})
	if best := strictyaml.Closest(unknown.GetSpecifiedName(), all); best != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, best)
	}
	return err
}
