package main

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"crowsnest/test/traffic"
)

// readTerms returns a rule for each different one-line term of a folder of published rules (CREs): a
// `value` is a text, a `regex` an expression. Terms below three bytes are omitted.
func readTerms(folder string) ([]traffic.Rule, error) {
	found := map[string]bool{} // whether it is an expression
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var doc struct {
			Rules []struct{ Rule yaml.Node }
		}
		if err := yaml.Unmarshal(data, &doc); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for i := range doc.Rules {
			addTerms(found, &doc.Rules[i].Rule)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read published rules: %w", err)
	}
	var out []traffic.Rule
	for term, expression := range found {
		r := traffic.Rule{Text: term}
		if expression {
			r = traffic.Rule{Expr: term}
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b traffic.Rule) int { return cmp.Compare(a.Text+a.Expr, b.Text+b.Expr) })
	for i := range out {
		out[i].ID, out[i].Name = i+1, fmt.Sprintf("Term%04d", i+1)
	}
	return out, nil
}

// addTerms adds the terms of a node and of those below it.
func addTerms(found map[string]bool, n *yaml.Node) {
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 1 && child.Kind == yaml.ScalarNode {
			key, term := n.Content[i-1].Value, child.Value
			if (key == "value" || key == "regex") && len(term) >= 3 && !strings.Contains(term, "\n") {
				found[term] = key == "regex"
			}
		}
		addTerms(found, child)
	}
}
