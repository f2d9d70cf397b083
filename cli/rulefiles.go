package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"crowsnest/daemon/loader"
	"crowsnest/lab/inputs"
	"crowsnest/rules"
	"crowsnest/rules/namespaces"
	"crowsnest/rules/rulefiles"
	"crowsnest/strictyaml"
)

type ruleFlags struct {
	paths     []string
	overrides []string
	// namespaces is the list of --infrastructure-namespaces.
	namespaces []string
}

func (f *ruleFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.paths, "rules", nil, "packs to use instead of the shipped ones: a file or folder `PATH` (repeatable)")
	cmd.Flags().StringArrayVar(&f.overrides, "overrides", nil, "overrides to apply last: a file or folder `PATH` (repeatable)")
}

func (f *ruleFlags) addNamespaces(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.namespaces, "infrastructure-namespaces", nil,
		"namespaces whose lines rules with `origin: infrastructure` trust: +NAME adds to the built-in `LIST`, -NAME removes from it, NAME replaces it, '*' allows all")
}

// name returns the paths of the chosen rules for people.
func (f *ruleFlags) name() string {
	paths := f.paths
	if len(paths) == 0 {
		paths = []string{"the shipped packs"}
	}
	return strings.Join(slices.Concat(paths, f.overrides), " ")
}

// trusted returns the infrastructure namespaces.
func (f *ruleFlags) trusted() (*namespaces.Set, error) {
	set, err := namespaces.Parse(f.namespaces)
	if err != nil {
		return nil, usageErrorf("--infrastructure-namespaces: %v", err)
	}
	return set, nil
}

// load loads the chosen rules. Those of the shipped packs have no tests.
func (f *ruleFlags) load(c *cli) (*rules.Set, error) {
	return f.loadFrom(c, func() ([]rules.File, error) { return loader.ShippedWithoutTests(), nil })
}

// loadWithTests loads the chosen rules with all tests, for commands that show them.
func (f *ruleFlags) loadWithTests(c *cli) (*rules.Set, error) { return f.loadFrom(c, loader.Shipped) }

func (f *ruleFlags) loadFrom(c *cli, shipped func() ([]rules.File, error)) (*rules.Set, error) {
	trusted, err := f.trusted()
	if err != nil {
		return nil, err
	}
	var files []rules.File
	if len(f.paths) == 0 {
		if files, err = shipped(); err != nil {
			return nil, err
		}
	}
	set, err := c.loadRules(files, slices.Concat(f.paths, f.overrides))
	if err == nil {
		set.Namespaces = trusted
	}
	return set, err
}

func (c *cli) loadRules(files []rules.File, paths []string) (*rules.Set, error) {
	docs, problems := c.parseRules(files, paths)
	set, found := loader.Build(docs, rules.Options{})
	problems = append(problems, found...)
	if errs := problems.Errors(); len(errs) > 0 {
		errs.Sort()
		return nil, fmt.Errorf("load rules:\n%w", errs)
	}
	return set, nil
}

// parseRules parses files and paths; the path "-" is standard input.
func (c *cli) parseRules(files []rules.File, paths []string) ([]*rules.Document, rules.Problems) {
	var problems rules.Problems
	var named []string
	for _, p := range paths {
		if p != inputs.Stdin {
			named = append(named, p)
			continue
		}
		data, err := io.ReadAll(io.LimitReader(c.in, rules.MaxFileBytes+1))
		if err != nil {
			problems = append(problems, rules.Problem{File: "stdin", Check: "read", Message: err.Error()})
			continue
		}
		files = append(files, rules.File{Name: "stdin", Data: data})
	}
	if len(named) > 0 {
		read, found := rulefiles.ReadPaths(named)
		files, problems = append(files, read...), append(problems, found...)
	}
	docs, found := loader.ParseFiles(files)
	return docs, append(problems, found...)
}

// readRuleFiles reads packs and folders of packs.
func readRuleFiles(paths []string) ([]rules.File, rules.Problems) { return rulefiles.ReadPaths(paths) }

// readFile reads a file, or standard input for "-".
func (c *cli) readFile(path string) ([]byte, error) {
	if path == inputs.Stdin {
		data, err := io.ReadAll(io.LimitReader(c.in, strictyaml.DefaultMaxBytes+1))
		if err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		return data, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, errors.Unwrap(err))
	}
	return data, nil
}
