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

	"crowsnest/internal/strictyaml"
)

const (
	ownName    = "crowsnest"
	pluginName = "kubectl crowsnest"
)

// programName returns the name by which the user called the program. argv0 is the name of the executed file. kubectl
// executes the file kubectl-NAME for its plugin NAME.
func programName(argv0 string) string {
	base := strings.TrimSuffix(filepath.Base(argv0), ".exe")
	if strings.HasPrefix(base, "kubectl-crowsnest") || strings.HasPrefix(base, "kubectl_crowsnest") {
		return pluginName
	}
	return ownName
}

// pluginArgs returns the effective arguments. A kubectl plugin that is called without a command scans the cluster.
func (c *cli) pluginArgs(args []string) []string {
	if c.name != pluginName || len(args) > 0 && (args[0] == "" || args[0][0] != '-' || slices.Contains([]string{"-h", "--help", "-v", "--version"}, args[0])) {
		return args
	}
	return append([]string{"scan", "--cluster"}, args...)
}

// rename replaces the name of the program in all help texts and examples by the name by which the user called the
// program.
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

// inName replaces the name of the program in the commands that a text contains.
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

// suggestion returns "; did you mean NAME?" if name is similar to one of names. Otherwise it returns "".
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

// pathBelowRoot returns the name of a command with the names of its parents, without the name of the program.
func pathBelowRoot(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().CommandPath()+" ")
}

// meantFlag returns the hint "; did you mean --FLAG=ARG?" if the argument arg is an allowed value of a flag. Otherwise
// it returns "".
func meantFlag(cmd *cobra.Command, arg string) string {
	for _, flag := range []string{"config.file", "rules"} {
		if cmd.Flags().Lookup(flag) != nil {
			return fmt.Sprintf("; did you mean --%s=%s?", flag, arg)
		}
	}
	return ""
}

// noSuchFlag adds a suggestion to an error about an unknown flag.
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
