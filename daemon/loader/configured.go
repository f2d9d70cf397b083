package loader

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"crowsnest/daemon/config"
	"crowsnest/rules"
	"crowsnest/rules/rulefiles"
	"crowsnest/strictyaml"
)

// ruleFiles reads every file of rules that the configuration names. instead replaces the
// copies of artifacts, by repository.
func ruleFiles(c *config.Config, instead map[string][]rules.File) ([]rules.File, rules.Problems) {
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
	for i := range c.Rules.Artifacts {
		a := &c.Rules.Artifacts[i]
		repository := a.Ref().Repository()
		packs, replaced := instead[repository]
		if !replaced {
			packs = filesOf(repository, Installed(c, a))
		}
		files = append(files, packs...)
	}
	read(c.Rules.Overrides)
	return files, problems
}

func buildConfigured(c *config.Config, docs []*rules.Document) (*rules.Set, rules.Problems) {
	trusted, err := c.Namespaces()
	if err != nil {
		return nil, rules.Problems{c.Rules.Keys.Key("infrastructure_namespaces").Problem(strictyaml.Error, "bad-value", err.Error(), "")}
	}
	if len(docs) == 0 {
		if c.Rules.AllowEmpty || len(c.Rules.Artifacts) > 0 { // which may not be fetched yet
			return &rules.Set{Namespaces: trusted}, nil
		}
		at := c.Rules.Keys.At.Problem(0, "no-rules", "no rules are loaded", "name a folder in rules.paths, or set rules.shipped")
		at.File = c.Path()
		return nil, rules.Problems{at}
	}
	return Build(docs, rules.Options{Namespaces: trusted})
}

// Load loads everything, for check config. The set is nil if there are errors. An
// artifact that was not fetched yet is a warning, as are overrides of unknown rules in
// that case.
func Load(c *config.Config) (*rules.Set, rules.Problems) {
	docs, problems := New().parse(c)
	set, found := buildConfigured(c, docs)
	missing := Missing(c)
	for i := range c.Rules.Artifacts {
		if a := &c.Rules.Artifacts[i]; slices.Contains(missing, a.Ref().Repository()) {
			problems = append(problems, a.Keys.Value("reference").Problem(strictyaml.Warning, "not-fetched",
				"the packs of this artifact are not checked: there is no copy of them in "+c.Storage.Path, "check them with crowsnest rules verify"))
		}
	}
	for i := range found {
		if len(missing) > 0 && found[i].Check == "no-such-rule" {
			found[i].Level = strictyaml.Warning
		}
	}
	return set, append(problems, found...)
}

// Fingerprint is a hash of everything that a load reads, problems included, but not of
// the packs that are part of the program: they do not change.
func Fingerprint(c *config.Config) string {
	local := *c
	local.Rules.Artifacts, local.Rules.Shipped = nil, false
	files, problems := ruleFiles(&local, nil)
	h := sha256.New()
	io.WriteString(h, stamps(c)) //nolint:errcheck // a hash accepts everything
	for _, f := range files {
		fmt.Fprintf(h, "%s\x00%d\x00", f.Name, len(f.Data))
		h.Write(f.Data)
	}
	for _, p := range problems {
		fmt.Fprintf(h, "%s\x00", p.String())
	}
	return hex.EncodeToString(h.Sum(nil))
}
