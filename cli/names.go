package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"crowsnest/rules"
	"crowsnest/strictyaml"
)

const (
	ownName    = "crowsnest"
	pluginName = "kubectl crowsnest"
)

// nameOf returns how a person calls the program that was started as argv0: kubectl starts
// its plugins as kubectl-NAME.
func nameOf(argv0 string) string {
	base := strings.TrimSuffix(filepath.Base(argv0), ".exe")
	if strings.HasPrefix(base, "kubectl-crowsnest") || strings.HasPrefix(base, "kubectl_crowsnest") {
		return pluginName
	}
	return ownName
}

// pluginArgs returns the arguments to run: a plugin of kubectl without a command scans the
// cluster.
func (c *cli) pluginArgs(args []string) []string {
	if c.name != pluginName || len(args) > 0 && (args[0] == "" || args[0][0] != '-' || slices.Contains([]string{"-h", "--help", "-v", "--version"}, args[0])) {
		return args
	}
	return append([]string{"scan", "--cluster"}, args...)
}

// rename makes help texts and examples of all commands use the name by which the program
// was called.
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

// meant returns "; did you mean NAME?" if a name is probably a misspelt one of the names,
// else "".
func meant(name string, names []string) string {
	if best := strictyaml.Closest(name, names); best != "" {
		return "; did you mean " + best + "?"
	}
	return ""
}

// noSuchCommand is the error for an argument that names no subcommand.
func noSuchCommand(cmd *cobra.Command, arg string) error {
	var all []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			all = append(all, sub.Name())
		}
	}
	hint := meant(arg, all)
	if hint == "" && len(all) > 0 {
		slices.Sort(all)
		hint = "; use " + strings.Join(all, ", ")
	}
	return usageErrorf("unknown command %q for %q%s", arg, cmd.CommandPath(), hint)
}

// rootError replaces the error of the library for an unknown command.
func (c *cli) rootError(err error) error {
	quoted, ok := strings.CutPrefix(err.Error(), "unknown command ")
	if !ok || c.started {
		return err
	}
	if quoted, e := strconv.QuotedPrefix(quoted); e == nil {
		if name, e := strconv.Unquote(quoted); e == nil {
			return noSuchCommand(c.root, name)
		}
	}
	return err
}

// noSuchFlag adds the flag that was probably meant to an error about flags.
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

// packsOf returns the names of the packs of rules.
func packsOf(set *rules.Set) []string {
	var out []string
	for _, r := range set.Rules {
		out = append(out, r.Pack)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// alertsOf returns the names of rules.
func alertsOf(set *rules.Set) []string {
	var out []string
	for _, r := range set.Rules {
		out = append(out, r.Alert)
	}
	slices.Sort(out)
	return out
}
