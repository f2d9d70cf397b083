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

// published is the number that stands for the published set.
const published = 0

func (o options) ruleSet(n int) (ruleSet, error) {
	s := ruleSet{name: fmt.Sprint(n), rules: traffic.Rules(n)}
	if n == published {
		s = ruleSet{name: "published", rules: traffic.PublishedRules()}
	}
	s.dir = filepath.Join(o.cache, fmt.Sprintf("v%s-rules-%s", traffic.Version, s.name))
	// They are small; writing them again repairs incomplete files.
	return s, traffic.WriteRules(s.dir, s.rules)
}

// log generates a log unless it exists.
func (o options) log(kind traffic.Kind, size int64) (string, error) {
	name := filepath.Join(o.cache, fmt.Sprintf("v%s-%s-%d.log", traffic.Version, kind, size))
	if _, err := os.Stat(name); err == nil {
		return name, nil
	}
	return name, traffic.WriteFile(name, size, traffic.Options{Kind: kind})
}
