package main

import (
	"fmt"
	"os"
	"path/filepath"

	"crowsnest/test/traffic"
)

// ruleSet is a set of rules and the folder with its files for every program.
type ruleSet struct {
	name  string
	dir   string
	rules []traffic.Rule
}

// Numbers that stand for other sets than the first so many generated rules.
const (
	published = 0  // generated, with the lengths of published rules
	terms     = -1 // options.terms
)

func (o options) ruleSet(n int) (ruleSet, error) {
	s := ruleSet{name: fmt.Sprint(n), rules: traffic.Rules(max(0, n))}
	switch n {
	case published:
		s = ruleSet{name: "published", rules: traffic.PublishedRules()}
	case terms:
		s = ruleSet{name: "terms", rules: o.terms}
	}
	s.dir = filepath.Join(o.cache, fmt.Sprintf("v%s-rules-%s", traffic.Version, s.name))
	// They are small; writing them again repairs incomplete files.
	return s, traffic.WriteRules(s.dir, s.rules)
}

// log generates a log unless it exists.
func (o options) log(kind traffic.Kind, size int64) (string, error) {
	name := filepath.Join(o.cache, fmt.Sprintf("v%s-%s-%d-%d.log", traffic.Version, kind, size, o.seed))
	if _, err := os.Stat(name); err == nil {
		return name, nil
	}
	return name, traffic.WriteFile(name, size, traffic.Options{Kind: kind, Seed: o.seed})
}
