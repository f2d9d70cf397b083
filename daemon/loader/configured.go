package loader

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"crowsnest/daemon/config"
	"crowsnest/internal/strictyaml"
	"crowsnest/rules"
	"crowsnest/rules/rulefiles"
)

func ruleFiles(c *config.Config) ([]rules.File, rules.Problems) {
	var files []rules.File
	var problems rules.Problems
	if c.Rules.Shipped {
		files = append(files, ShippedWithoutTests()...)
	}
	read := func(paths []string) {
		for _, p := range paths {
			read, found := rulefiles.ReadPaths([]string{p})
			if c.Rules.AllowEmpty && len(read) == 0 {
				found = slices.DeleteFunc(found, func(p rules.Problem) bool { return strings.Contains(p.Message, "has no *.yaml") })
			}
			files, problems = append(files, read...), append(problems, found...)
		}
	}
	read(c.Rules.Paths)
	read(c.Rules.Overrides)
	return files, problems
}

func buildConfigured(c *config.Config, docs []*rules.Document) (*rules.Set, rules.Problems) {
	trusted, err := c.Namespaces()
	if err != nil {
		return nil, rules.Problems{c.Rules.Keys.Key("infrastructure_namespaces").Problem(strictyaml.Error, "bad-value", err.Error(), "")}
	}
	if len(docs) == 0 {
		if c.Rules.AllowEmpty {
			return &rules.Set{Namespaces: trusted}, nil
		}
		at := c.Rules.Keys.Pos.Problem(0, "no-rules", "no rules are loaded", "name a folder in rules.paths, or set rules.shipped")
		at.File = c.Path()
		return nil, rules.Problems{at}
	}
	return BuildSet(docs, rules.Options{Namespaces: trusted})
}

// Load loads all rules of a configuration for the command check config. The set is nil if there are errors.
func Load(c *config.Config) (*rules.Set, rules.Problems) {
	docs, problems := New().parse(c)
	set, found := buildConfigured(c, docs)
	return set, append(problems, found...)
}

// Fingerprint returns a hash of all files that a load reads, including problems with reading them. The shipped packs
// are not included, because they are part of the program.
func Fingerprint(c *config.Config) string {
	local := *c
	local.Rules.Shipped = false
	files, problems := ruleFiles(&local)
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%s\x00%d\x00", f.Name, len(f.Data))
		h.Write(f.Data)
	}
	for _, p := range problems {
		fmt.Fprintf(h, "%s\x00", p.String())
	}
	return hex.EncodeToString(h.Sum(nil))
}
