package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"crowsnest/cli/internal/api"
	"crowsnest/internal/lazyre"
	"crowsnest/internal/text"
	"crowsnest/redact"
	"crowsnest/web"
)

// completionTime bounds how long a person waits for names that a daemon knows.
const completionTime = 1500 * time.Millisecond

type completer = cobra.CompletionFunc

// complete makes shells complete the values of all flags and arguments.
func (c *cli) complete(root *cobra.Command) {
	c.completeArgs(root)
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.ValidArgsFunction == nil && cmd.Args != nil && cmd.Args(cmd, []string{"x"}) != nil {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if _, known := cmd.GetFlagCompletionFunc(f.Name); !known {
				_ = cmd.RegisterFlagCompletionFunc(f.Name, c.valuesOf(f)) // fails only for unknown flags
			}
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

// completeArgs sets what completes the arguments of commands that do not take files.
func (c *cli) completeArgs(root *cobra.Command) {
	yaml := func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return []cobra.Completion{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
	}
	for path, f := range map[string]completer{
		"explain": first(c.ruleNames), "rules show": first(c.ruleNames), "alert test": first(c.ruleNames),
		"get alerts": c.matchers, "get episodes": c.matchers, "get unknown": first(c.unknownFingerprints),
		"case": c.fingerprintsOrFiles, "rules capture": first(c.fingerprintsOrRules),
		"rules docs": first(c.ruleNames), "rules import": formatNames,
		"check rules": yaml, "test rules": yaml, "check config": yaml,
	} {
		if cmd, _, err := root.Find(strings.Fields(path)); err == nil {
			cmd.ValidArgsFunction = f
		}
	}
}

// first completes only the first argument.
func first(f completer) completer {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, word)
	}
}

// valuesOf returns what completes a flag: its values, names, or the kind of files that its
// help text names.
func (c *cli) valuesOf(f *pflag.Flag) completer {
	if o, ok := f.Value.(*oneOf); ok {
		return cobra.FixedCompletions(o.allowed, cobra.ShellCompDirectiveNoFileComp)
	}
	name, _ := pflag.UnquoteUsage(f)
	switch {
	case f.Name == "pack" && name == "GLOB":
		return c.packNames
	case f.Name == "rule" && name == "GLOB", f.Name == "alert" && name == "NAME":
		return c.ruleNames
	case f.Name == "episode":
		return c.fingerprints
	case name == "FILE", name == "PATH", name == "PROGRAM":
		return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		}
	case name == "FOLDER":
		return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
	}
	return cobra.NoFileCompletions
}

// candidate is a rule, as far as a completion shows it.
type candidate struct{ alert, pack, severity string }

// rulesOf returns the rules that a command line selects, none if they cannot be read.
func (c *cli) rulesOf(cmd *cobra.Command) (out []candidate) {
	var f ruleFlags
	f.paths, _ = cmd.Flags().GetStringArray("rules")
	if slices.Contains(f.paths, "-") {
		return nil
	}
	set, err := f.load(c)
	if err != nil {
		return nil
	}
	for _, r := range set.Rules {
		out = append(out, candidate{r.Alert, r.Pack, string(r.Severity)})
	}
	return out
}

func (c *cli) ruleNames(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var out []cobra.Completion
	for _, r := range c.rulesOf(cmd) {
		if strings.HasPrefix(r.alert, word) {
			out = append(out, cobra.CompletionWithDesc(r.alert, strings.TrimPrefix(r.severity+", pack "+r.pack, ", ")))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func (c *cli) packNames(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	count := map[string]int{}
	for _, r := range c.rulesOf(cmd) {
		count[r.pack]++
	}
	var out []cobra.Completion
	for _, name := range slices.Sorted(maps.Keys(count)) {
		if strings.HasPrefix(name, word) {
			out = append(out, cobra.CompletionWithDesc(name, text.Plural(count[name], "rule")))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// running reads what the daemon of a command line answers within a short time; into stays as
// it is if it does not.
func (c *cli) running(cmd *cobra.Command, path string, into any) {
	var f getFlags
	f.url, _ = cmd.Flags().GetString("url")
	f.httpConfig, _ = cmd.Flags().GetString(httpConfigFlag)
	if env := c.getenv(envName("url")); env != "" && !cmd.Flags().Changed("url") {
		f.url = env
	}
	if env := c.getenv(envName(httpConfigFlag)); env != "" && f.httpConfig == "" {
		f.httpConfig = env
	}
	if f.url == "" {
		f.url = api.DefaultAddress
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	data, err := f.fetch(ctx, path)
	if err == nil {
		_ = json.Unmarshal(data, into) // a shell shows no errors
	}
}

// episodesOf returns the episodes of the daemon.
func (c *cli) episodesOf(cmd *cobra.Command) []web.Episode {
	var answer struct{ Episodes []web.Episode }
	c.running(cmd, "episodes", &answer)
	return answer.Episodes
}

func (c *cli) fingerprints(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var out []cobra.Completion
	for _, e := range c.episodesOf(cmd) {
		if strings.HasPrefix(e.Fingerprint, word) && fingerprintText.MatchString(e.Fingerprint) {
			out = append(out, cobra.CompletionWithDesc(e.Fingerprint, redact.Sanitise(fmt.Sprintf("%s, %s", e.Alert, e.State))))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// startsFingerprint is a word that a fingerprint may begin with.
var startsFingerprint = lazyre.New(`^[0-9a-f]{0,16}$`)

func (c *cli) fingerprintsOrFiles(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 || !startsFingerprint.MatchString(word) {
		return nil, cobra.ShellCompDirectiveDefault
	}
	out, _ := c.fingerprints(cmd, args, word)
	return out, cobra.ShellCompDirectiveDefault
}

func (c *cli) unknownFingerprints(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var answer web.Unknown
	c.running(cmd, "unknown", &answer)
	var out []cobra.Completion
	for _, u := range answer.Failures {
		if strings.HasPrefix(u.Fingerprint, word) && fingerprintText.MatchString(u.Fingerprint) {
			out = append(out, cobra.CompletionWithDesc(u.Fingerprint, redact.Sanitise(u.Component)))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// plainValue is a label value that needs no quotation marks in a shell.
var plainValue = lazyre.New(`^[A-Za-z0-9_./@:-]+$`)

// matchers completes NAME= and then NAME=VALUE, with the labels of what is open.
func (c *cli) matchers(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	found := map[string]bool{}
	name, _, valued := strings.Cut(word, "=")
	for _, e := range c.episodesOf(cmd) {
		for label, value := range e.Labels {
			switch {
			case !valued:
				found[label+"="] = true
			case label == name && plainValue.MatchString(value):
				found[label+"="+value] = true
			}
		}
	}
	var out []cobra.Completion
	for _, m := range slices.Sorted(maps.Keys(found)) {
		if strings.HasPrefix(m, word) {
			out = append(out, m)
		}
	}
	directive := cobra.ShellCompDirectiveNoFileComp
	if !valued {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	return out, directive
}

func (c *cli) fingerprintsOrRules(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var out []cobra.Completion
	if startsFingerprint.MatchString(word) {
		out, _ = c.fingerprints(cmd, args, word)
	}
	names, directive := c.ruleNames(cmd, args, word)
	return append(out, names...), directive
}

// formatNames completes the format of `rules import`, and then files.
func formatNames(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var out []cobra.Completion
	for _, format := range slices.Sorted(maps.Keys(importFormats)) {
		out = append(out, string(format))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
