// Package reference writes the reference of the rule language in Markdown, from
// the JSON Schema and the table of checks.
package reference

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"crowsnest/cli/internal/findings"
	rulesschema "crowsnest/rules/schema"
	"crowsnest/rules/template"
)

//go:embed head.md
var head string

// schema is the part of a JSON Schema that the page needs.
type schema struct {
	Description string             `json:"description"`
	Ref         string             `json:"$ref"`
	Type        string             `json:"type"`
	Const       any                `json:"const"`
	Enum        []any              `json:"enum"`
	Pattern     string             `json:"pattern"`
	Minimum     *int               `json:"minimum"`
	Maximum     *int               `json:"maximum"`
	Items       *schema            `json:"items"`
	Required    []string           `json:"required"`
	AnyOf       []*schema          `json:"anyOf"`
	Values      json.RawMessage    `json:"additionalProperties"`
	Properties  json.RawMessage    `json:"properties"`
	Defs        map[string]*schema `json:"$defs"`
}

type section struct {
	def, title, text string
}

// sections are the definitions in the order of the page.
func sections() []section {
	return []section{
		{"PackFile", "File of a pack", ""},
		{"PackHeader", "Header of a pack", ""},
		{"Defaults", "Defaults", ""},
		{"Rule", "Rule", ""},
		{"Matcher", "Matcher", "A text that the line contains, or a mapping whose parts must all hold:"},
		{"Step", "Step of a sequence", "A matcher with these additional keys:"},
		{"Clear", "Clear", "A matcher with these additional keys:"},
		{"Unless", "Unless", "A matcher, always written as a mapping, with these additional keys:"},
		{"Cause", "Cause", "A rule that the rule is a symptom of: its name, or a mapping with these keys."},
		{"Remediation", "Remediation", ""},
		{"Affects", "Affects", ""},
		{"Verified", "Verified", "The versions of a component whose source has the texts of a rule. `crowsnest rules verify-source` compares them with a source."},
		{"Test", "Test", "Tests run with the engine of the daemon and a virtual clock. A test sees only its own rule, and its causes as the test states them."},
		{"Input", "Input of a test", ""},
		{"Checkpoint", "Checkpoint of a test", ""},
		{"ExpectedAlert", "Expected alert", ""},
		{"OverridesFile", "File of overrides", "A file of overrides changes rules of packs that others maintain."},
		{"Override", "Override", ""},
		{"Set", "Set", "Keys of a rule that an override may set."},
	}
}

// Language returns the reference of the rule language. It fails if the schema
// has a definition that the page does not show.
func Language() (string, error) {
	raw, err := rulesschema.Rules()
	if err != nil {
		return "", err
	}
	var root schema
	if err := json.Unmarshal(raw, &root); err != nil {
		return "", fmt.Errorf("read the schema: %w", err)
	}
	var b strings.Builder
	names := template.Functions()
	b.WriteString(strings.ReplaceAll(head, "{{functions}}", "`"+strings.Join(names, "`, `")+"`"))
	p := &page{b: &b, titles: map[string]string{}}
	for _, s := range sections() {
		p.titles[s.def] = s.title
	}
	for _, name := range slices.Sorted(maps.Keys(root.Defs)) {
		if p.titles[name] == "" {
			return "", fmt.Errorf("the page shows no %s: add it to sections", name)
		}
	}
	matcher, err := propertiesOf(object(root.Defs["Matcher"]))
	if err != nil {
		return "", err
	}
	for _, s := range sections() {
		if err := p.section(s, root.Defs[s.def], matcher); err != nil {
			return "", err
		}
	}
	b.WriteString("\n" + compactChecks(findings.Checks()))
	return b.String(), nil
}

type page struct {
	b      *strings.Builder
	titles map[string]string // title of each definition
}

// section writes the keys of a definition. The keys of a matcher appear only in
// its own section.
func (p *page) section(s section, def *schema, matcher []property) error {
	if def == nil {
		return fmt.Errorf("the schema has no %s", s.def)
	}
	o := object(def)
	all, err := propertiesOf(o)
	if err != nil {
		return err
	}
	text := s.text
	if text == "" {
		text = o.Description
	}
	fmt.Fprintf(p.b, "\n## %s\n\n", s.title)
	if text != "" {
		fmt.Fprintf(p.b, "%s\n\n", escape(text))
	}
	if same := sameAsInRule(all); len(same) > 0 {
		fmt.Fprintf(p.b, "%s have the same form and meaning as in a rule. Others:\n\n", strings.Join(same, ", "))
	}
	p.b.WriteString("| Key | Value | |\n|---|---|---|\n")
	for _, prop := range all {
		if prop.Description == asInRule {
			continue
		}
		if s.def != "Matcher" && slices.ContainsFunc(matcher, func(m property) bool { return m.name == prop.name && s.def != "Set" && len(def.AnyOf) > 0 }) {
			continue
		}
		value := p.value(prop.schema)
		if slices.Contains(o.Required, prop.name) {
			value += ", **required**"
		}
		fmt.Fprintf(p.b, "| `%s` | %s | %s |\n", prop.name, value, escape(prop.Description))
	}
	return nil
}

// asInRule is the description of a key that overrides may set.
const asInRule = "As in a rule."

func sameAsInRule(all []property) (keys []string) {
	for _, prop := range all {
		if prop.Description == asInRule {
			keys = append(keys, "`"+prop.name+"`")
		}
	}
	return keys
}

var checkRow = regexp.MustCompile("(?m)^(\\| `[a-z-]+`) \\| ([a-z ]+) \\| (.*) \\| (.*) \\|$")

// compactChecks turns the four columns of the table of checks into two. Most checks are errors, so
// only other levels are named.
func compactChecks(checks string) string {
	checks = strings.ReplaceAll(checks, "| Finding | Level | What it means | What to do |\n|---|---|---|---|", "| Finding | What it means, and what to do |\n|---|---|")
	checks = checkRow.ReplaceAllString(checks, "$1 ($2) | $3 $4 |")
	return strings.ReplaceAll(checks, "` (error) |", "` |")
}

// object returns the form of a definition that has keys.
func object(s *schema) *schema {
	for _, one := range s.AnyOf {
		if len(one.Properties) > 0 {
			return one
		}
	}
	return s
}

func (p *page) value(s *schema) string {
	switch {
	case s.Ref != "":
		title := p.titles[strings.TrimPrefix(s.Ref, "#/$defs/")]
		return fmt.Sprintf("[%s](#%s)", strings.ToLower(title), anchor(title))
	case len(s.AnyOf) > 0 && s.AnyOf[0].Pattern != "":
		return "duration"
	case len(s.AnyOf) > 0:
		forms := make([]string, len(s.AnyOf))
		for i, one := range s.AnyOf {
			forms[i] = p.value(one)
		}
		return strings.Join(forms, " or ")
	case s.Const != nil:
		return fmt.Sprintf("`%v`", s.Const)
	case len(s.Enum) > 0:
		var words []string
		for _, w := range s.Enum {
			if word := fmt.Sprintf("`%v`", w); !slices.Contains(words, word) {
				words = append(words, word)
			}
		}
		return strings.Join(words, ", ")
	case s.Type == "array" && len(s.Items.Properties) > 0:
		return "list of " + p.value(&schema{Ref: "ExpectedAlert"})
	case s.Type == "array":
		return "list of " + p.value(s.Items)
	case s.Type == "object":
		return "map"
	case s.Type == "integer" && s.Maximum != nil:
		return fmt.Sprintf("number, %d to %d", *s.Minimum, *s.Maximum)
	case s.Type == "integer":
		return "number"
	}
	return "text"
}

// anchor returns the link target that GitHub generates for a heading.
func anchor(title string) string { return strings.ReplaceAll(strings.ToLower(title), " ", "-") }

// escape turns a text of the schema, which has no markup, into the text of a
// table cell.
func escape(text string) string {
	return strings.NewReplacer("<", "&lt;", "*", `\*`, "_", `\_`, "|", `\|`).Replace(text)
}
