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
	"crowsnest/internal/strictyaml"
	"crowsnest/lab/inputs"
	"crowsnest/matcher"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/rules/namespaces"
	"crowsnest/rules/rulefiles"
)

// shippedRules is the value of --rules that means the packs embedded in the program. A folder with the same name can be
// written as ./shipped.
const shippedRules = "shipped"

type ruleFlags struct {
	paths     []string
	overrides []string
	// namespaces contains the values of --infrastructure-namespaces.
	namespaces []string
}

const rulesUsage = "packs to use: a file or folder `PATH`, or shipped for the built-in packs (repeatable; default shipped)"

func (f *ruleFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.paths, "rules", nil, rulesUsage)
	cmd.Flags().StringArrayVar(&f.overrides, "overrides", nil, "overrides to apply last: a file or folder `PATH` (repeatable)")
}

func (f *ruleFlags) addNamespaces(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.namespaces, "infrastructure-namespaces", nil,
		"namespaces whose lines rules with \"origin: infrastructure\" trust, a `LIST`: +NAME adds to the built-in one, -NAME removes from it, NAME replaces it, '*' allows all")
}

func (f *ruleFlags) chosenPacks() []string {
	if len(f.paths) == 0 {
		return []string{shippedRules}
	}
	return f.paths
}

func (f *ruleFlags) describe() string {
	names := slices.Concat(f.chosenPacks(), f.overrides)
	for i, name := range names {
		if name == shippedRules {
			names[i] = "the shipped packs"
		}
	}
	return strings.Join(names, " ")
}

func (f *ruleFlags) trustedNamespaces() (*namespaces.Set, error) {
	set, err := namespaces.Parse(f.namespaces)
	if err != nil {
		return nil, usageErrorf("--infrastructure-namespaces: %v", err)
	}
	return set, nil
}

// load loads the selected rules. The shipped packs are loaded without their tests.
func (f *ruleFlags) load(c *cli) (*rules.Set, error) { return f.loadFrom(c, withoutTests) }

// loadWithTests loads the selected rules with their tests, for commands that run or show tests.
func (f *ruleFlags) loadWithTests(c *cli) (*rules.Set, error) { return f.loadFrom(c, loader.Shipped) }

func (f *ruleFlags) loadFrom(c *cli, shipped shippedFiles) (*rules.Set, error) {
	trusted, err := f.trustedNamespaces()
	if err != nil {
		return nil, err
	}
	set, err := c.loadRules(slices.Concat(f.chosenPacks(), f.overrides), shipped)
	if err == nil {
		set.Namespaces = trusted
	}
	return set, err
}

// shippedFiles returns the shipped packs, with or without their tests.
type shippedFiles func() ([]rules.File, error)

func withoutTests() ([]rules.File, error) { return loader.ShippedWithoutTests(), nil }

// loadRules loads packs and overrides. It warns about label names in rules that no line can have.
func (c *cli) loadRules(paths []string, shipped shippedFiles) (*rules.Set, error) {
	files, problems := c.readRules(paths, shipped)
	set, err := buildRules(files, problems)
	if err != nil {
		return nil, err
	}
	for _, w := range set.Warnings {
		if w.Check == "unknown-name" { // such a name would change the result without an error
			fmt.Fprintln(c.err, w.String())
		}
	}
	return set, nil
}

func (f *ruleFlags) loadTarget(c *cli) (replay.Target, error) {
	set, err := f.load(c)
	if err != nil {
		return replay.Target{}, err
	}
	return newTarget(set)
}

func newTarget(set *rules.Set) (replay.Target, error) {
	program, err := matcher.CompileOpen(set)
	if err != nil {
		return replay.Target{}, fmt.Errorf("compile rules: %w", err)
	}
	return replay.Target{Set: set, Program: program}, nil
}

// buildRules builds a rule set from files. The error contains the problems of the rules and the problems from reading
// the files.
func buildRules(files []rules.File, problems rules.Problems) (*rules.Set, error) {
	docs, found := loader.ParseFiles(files)
	set, more := loader.BuildSet(docs, rules.Options{})
	if errs := slices.Concat(problems, found, more).Errors(); len(errs) > 0 {
		errs.Sort()
		return nil, fmt.Errorf("load rules:\n%w", errs)
	}
	return set, nil
}

// readRules reads the packs and overrides at paths. A path is a file, a folder, "-" for standard input, or
// shippedRules.
func (c *cli) readRules(paths []string, shipped shippedFiles) (files []rules.File, problems rules.Problems) {
	var named []string
	for i, p := range paths {
		switch {
		case slices.Contains(paths[:i], p):
		case p == shippedRules:
			read, err := shipped()
			if err != nil {
				problems = append(problems, rules.Problem{File: p, Check: "read", Message: err.Error()})
			}
			files = append(files, read...)
		case p == inputs.Stdin:
			data, err := io.ReadAll(io.LimitReader(c.in, rules.MaxFileBytes+1))
			if err != nil {
				problems = append(problems, rules.Problem{File: "stdin", Check: "read", Message: err.Error()})
				continue
			}
			files = append(files, rules.File{Name: "stdin", Data: data})
		default:
			named = append(named, p)
		}
	}
	if len(named) > 0 {
		read, found := rulefiles.ReadPaths(named)
		for i, p := range found {
			switch {
			case strings.Contains(p.File, "://"):
				found[i].Fix = "this is an address and not a file: download it first"
			case strictyaml.Closest(p.File, []string{shippedRules}) != "":
				found[i].Fix = "did you mean " + shippedRules + ", the built-in packs?"
			}
		}
		files, problems = append(files, read...), append(problems, found...)
	}
	return files, problems
}

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
