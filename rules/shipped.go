package rules

import (
	"embed"
	"io/fs"

	"crowsnest/internal/strictyaml"
	"crowsnest/rules/rulefiles"
)

//go:embed packs
var packs embed.FS

// Shipped returns the packs that are built into the program.
func Shipped() fs.FS {
	sub, _ := fs.Sub(packs, "packs") // the name is valid, so there is no error
	return sub
}

// Load reads, parses and builds all rules of the file systems. The error is a Problems that
// contains all errors and warnings.
func Load(fsys ...fs.FS) (*Set, error) {
	var docs []*Document
	var problems Problems
	for _, fy := range fsys {
		read, err := rulefiles.ReadFS(fy)
		if err != nil {
			problems = append(problems, Problem{File: "rules", Level: strictyaml.Error, Check: "read", Message: err.Error()})
			continue
		}
		for _, f := range read {
			d, ps := Parse(f)
			docs, problems = append(docs, d), append(problems, ps...)
		}
	}
	set, ps := Build(docs, Options{})
	problems = append(problems, ps...)
	if len(problems.Errors()) > 0 || set == nil {
		problems.Sort()
		return nil, problems
	}
	return set, nil
}
