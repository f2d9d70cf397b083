package traffic

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The files written by WriteRules. packDir is a folder.
const (
	packDir       = "pack"
	hyperscanFile = "hyperscan.txt"
	mtailFile     = "rules.mtail"
	sECFile       = "sec.conf"
	ripgrepFile   = "ripgrep.txt"
)

// packRules is the number of rules per file, because the size of a pack is
// bounded.
const packRules = 1000

// WriteRules writes the rules into a folder: as packs of crowsnest, a thousand
// rules per file, and in the languages of its peers.
func WriteRules(dir string, rules []Rule) error {
	if err := os.MkdirAll(filepath.Join(dir, packDir), 0o755); err != nil {
		return fmt.Errorf("write rules: %w", err)
	}
	files := map[string][]byte{
		hyperscanFile: Hyperscan(rules), mtailFile: Mtail(rules), sECFile: SEC(rules), ripgrepFile: Ripgrep(rules),
	}
	for i := 0; i*packRules < len(rules); i++ {
		part := rules[i*packRules : min((i+1)*packRules, len(rules))]
		files[filepath.Join(packDir, fmt.Sprintf("traffic-%d.yaml", i))] = Pack(fmt.Sprintf("traffic-%d", i), part)
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return fmt.Errorf("write rules: %w", err)
		}
	}
	return nil
}

// Pack returns the rules as a pack of crowsnest with that name. They apply to
// every container, and match the whole line, as those of its peers do.
func Pack(name string, rules []Rule) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "pack: {name: %s, version: 0.1.0, requires: \">=0.1\"}\ndefaults: {severity: warning}\nrules:\n", name)
	for _, r := range rules {
		match := "{in: anywhere, regex: " + yamlText(r.Expr) + "}"
		if r.Text != "" {
			match = "{in: anywhere, contains: " + yamlText(r.Text) + "}"
		}
		fmt.Fprintf(&b, `- alert: %s
  from: '{container=~".+"}'
  match: %s
  by: [%s]
  keep_firing_for: 10m
  annotations: {summary: a made-up failure}
  remediation: {summary: none, steps: [none]}
`, r.Name, match, strings.Join(r.By, ", "))
	}
	return b.Bytes()
}

func yamlText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Hyperscan returns a line `id:/expression/` for each rule.
func Hyperscan(rules []Rule) []byte {
	var b bytes.Buffer
	for _, r := range rules {
		fmt.Fprintf(&b, "%d:/%s/\n", r.ID, strings.ReplaceAll(r.Bare(), "/", `\/`))
	}
	return b.Bytes()
}

// Mtail returns a program for mtail with a counter by rule, named "matches".
func Mtail(rules []Rule) []byte {
	var b bytes.Buffer
	b.WriteString("counter matches by rule\n")
	for _, r := range rules {
		fmt.Fprintf(&b, "/%s/ {\n  matches[%q]++\n}\n", strings.ReplaceAll(r.Regexp(), "/", `\/`), r.Name)
	}
	return b.Bytes()
}

// SEC returns a configuration of the Simple Event Correlator that prints the
// name of a rule for each line that matches.
func SEC(rules []Rule) []byte {
	var b bytes.Buffer
	for _, r := range rules {
		kind, pattern := "SubStr", r.Text
		if r.Text == "" {
			kind, pattern = "RegExp", r.Expr
		}
		fmt.Fprintf(&b, "type=Single\ncontinue=TakeNext\nptype=%s\npattern=%s\ndesc=%s\naction=write - %s\n\n", kind, pattern, r.Name, r.Name)
	}
	return b.Bytes()
}

// Ripgrep returns a list of expressions for `rg -f`.
func Ripgrep(rules []Rule) []byte {
	var b bytes.Buffer
	for _, r := range rules {
		b.WriteString(r.Bare() + "\n")
	}
	return b.Bytes()
}
