// Package runbook generates a Markdown page for each rule and an index page for each pack, from the rules only.
package runbook

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"crowsnest/internal/lazyre"
	"crowsnest/rules"
)

// Pages returns the pages for a set of rules by relative path. There is one index page, one page for each pack, and one
// page for each rule. The text depends only on the rules.
func Pages(set *rules.Set) map[string]string {
	out := map[string]string{"README.md": indexPage(set)}
	for _, p := range set.Packs {
		out[packPath(p.Name)] = packPage(p.Name, packRules(set, p.Name))
	}
	for _, r := range set.Rules {
		out[path.Join(r.Pack, r.Alert+".md")] = Page(set, r)
	}
	return out
}

func packPath(name string) string { return path.Join(name, "README.md") }

// packRules returns the rules of a pack, sorted by name.
func packRules(set *rules.Set, pack string) []*rules.Rule {
	var out []*rules.Rule
	for _, r := range set.Rules {
		if r.Pack == pack {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *rules.Rule) int { return strings.Compare(a.Alert, b.Alert) })
	return out
}

// generated is the first line of every page.
const generated = "<!-- Written by `crowsnest rules docs`; change the rule, not this page. -->\n\n"

func indexPage(set *rules.Set) string {
	var b strings.Builder
	b.WriteString(generated + "# Runbooks\n\n| Pack | Rules |\n|---|---|\n")
	names := make([]string, 0, len(set.Packs))
	for _, p := range set.Packs {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		var links []string
		for _, r := range packRules(set, name) {
			links = append(links, fmt.Sprintf("[%s](%s/%s.md)", r.Alert, name, r.Alert))
		}
		fmt.Fprintf(&b, "| [%s](%s) | %s |\n", name, packPath(name), strings.Join(links, ", "))
	}
	return b.String()
}

func packPage(name string, all []*rules.Rule) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s# Pack %s\n\n| Alert | Severity | Verified | Summary |\n|---|---|---|---|\n", generated, name)
	for _, r := range all {
		fmt.Fprintf(&b, "| [%s](%s.md) | %s | %s | %s |\n", r.Alert, r.Alert, r.Severity, tableCell(verifiedText(r)), tableCell(annotationText(r, "summary")))
	}
	return b.String()
}

// verifiedText returns a text about the versions of components whose source code contains the rule's texts.
func verifiedText(r *rules.Rule) string {
	var parts []string
	for _, v := range r.Verified {
		parts = append(parts, v.Component+" "+inlineCode(v.Versions))
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}

// Page returns the page of one rule of a set.
func Page(set *rules.Set, r *rules.Rule) string {
	var b strings.Builder
	para := func(text string) {
		if text = strings.TrimSpace(text); text != "" {
			b.WriteString(text + "\n\n")
		}
	}
	b.WriteString(generated)
	para("# " + r.Alert)
	para(fmt.Sprintf("Severity `%s`, pack [%s](README.md).", r.Severity, r.Pack))
	if len(r.Verified) > 0 {
		para(fmt.Sprintf("Its texts are in the source of %s.", verifiedText(r)))
	}
	para("## Meaning")
	para(annotationText(r, "summary"))
	para(describeTrigger(r))
	para("## Impact")
	para(annotationText(r, "description"))
	para(impacts[r.Severity])
	para(nameSymptoms(set, r))
	para("## Diagnosis")
	para(describeCauses(set, r))
	para(diagnosisSection(r))
	para(exampleLines(r))
	para("## Mitigation")
	para(mitigationSection(r))
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// annotationText returns the text of an annotation. Names of values replace the values.
func annotationText(r *rules.Rule, name string) string {
	for _, a := range r.Annotations {
		if a.Name == name {
			return readableText(a.Template)
		}
	}
	return ""
}

// readableText returns a template as readable text. Names of values replace the values, in italics.
func readableText(t *rules.Template) string {
	if t == nil {
		return ""
	}
	return t.DocumentText(func(name string) string { return "*" + name + "*" }, escape)
}

func escape(s string) string {
	return strings.NewReplacer("<", `\<`, "*", `\*`, "[", `\[`).Replace(s)
}

// commandText returns a template as a command. Names of values replace the values in capitals, as in usage texts.
func commandText(t *rules.Template) string {
	return t.DocumentText(strings.ToUpper, func(text string) string { return text })
}

var impacts = map[rules.Severity]string{
	rules.SeverityCritical: "Critical: needs attention immediately.",
	rules.SeverityWarning:  "Warning: needs attention within days.",
	rules.SeverityInfo:     "Info: no action is needed.",
}

func mitigationSection(r *rules.Rule) string {
	var b strings.Builder
	rem := r.Remediation
	if rem.Summary != nil {
		b.WriteString(readableText(rem.Summary) + "\n\n")
	}
	for i, s := range rem.Steps {
		step := strings.TrimSpace(commandText(s))
		if strings.Contains(step, "\n") {
			fmt.Fprintf(&b, "%d.  ```\n    %s\n    ```\n", i+1, strings.ReplaceAll(step, "\n", "\n    "))
		} else {
			fmt.Fprintf(&b, "%d. %s\n", i+1, inlineCode(step))
		}
	}
	if len(rem.Affects) > 0 {
		b.WriteString("\n| Component | Affected versions | Fixed in | See |\n|---|---|---|---|\n")
		for _, a := range rem.Affects {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", tableCell(a.Component), tableCell(inlineCode(a.Versions)), tableCell(cmp.Or(a.FixedIn, "-")), tableCell(cmp.Or(referenceLink(a.Ref), "-")))
		}
	}
	if rem.RunbookURL != "" {
		fmt.Fprintf(&b, "\nMore: <%s>\n", rem.RunbookURL)
	}
	if b.Len() == 0 {
		return "The rule does not state any."
	}
	return b.String()
}

// issue matches a reference to a GitHub issue or pull request, such as owner/repository#12.
var issue = lazyre.New(`^([\w.-]+/[\w.-]+)#(\d+)$`)

func referenceLink(ref string) string {
	if m := issue.FindStringSubmatch(ref); m != nil {
		return fmt.Sprintf("[%s](https://github.com/%s/issues/%s)", ref, m[1], m[2])
	}
	if strings.HasPrefix(ref, "https://") {
		return "<" + ref + ">"
	}
	return ref
}

func tableCell(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`)
}

// inlineCode returns s as Markdown code. It uses as many backticks as s requires.
func inlineCode(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return fence + s + fence
}
