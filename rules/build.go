package rules

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"crowsnest/internal/strictyaml"
	"crowsnest/rules/versions"
)

// Options configure Build.
type Options struct {
	// Shipped adds the requirements for the packs of this repository: each header states the number of rules, and each
	// rule has tests.
	Shipped bool
	// Version is the version of the program, with which `requires` is compared. An empty version, or a text that is not
	// a version, such as "dev", meets every requirement.
	Version string
	// Namespaces becomes Set.Namespaces.
	Namespaces *Namespaces
}

// builder builds a set from documents.
type builder struct {
	report
	opt   Options
	docs  []*Document
	rules []*packRule // copies of the packs' rules, to which overrides are applied
}

// Build merges packs and overrides into the set of effective rules, in the order of docs, and checks the rules against
// each other. It does not change docs, so the caller may keep them and call Build again. The rules of a document with
// errors are used only to check other documents. Build does not repeat problems that Parse has returned. The set is nil
// if docs or the returned problems contain errors.
func Build(docs []*Document, opt Options) (*Set, Problems) {
	b := &builder{opt: opt, docs: docs}
	if !b.collectForms() {
		return nil, tidyProblems(b.problems)
	}
	b.checkPacks()
	b.checkNames()
	b.applyOverrides()
	b.lint()
	b.dropForeignCauses()
	b.lintCauses()
	b.checkTests()
	own := b.newProblems()
	if b.anyBroken() || len(own.Errors()) > 0 {
		return nil, own
	}
	return b.buildSet(own), own
}

// collectForms collects the rules of all packs. It returns false if there are none or too many.
func (b *builder) collectForms() bool {
	n := 0
	for _, d := range b.docs {
		n += len(d.rules)
		if n > maxRules {
			b.addError(d.start, "too-many-rules", fmt.Sprintf("with this file, the packs have more than %d rules", maxRules), "load fewer packs")
			return false
		}
		for _, r := range d.rules {
			if r.written != nil {
				r.written = r.written.clone()
			}
			b.rules = append(b.rules, &r)
		}
	}
	if n == 0 && !b.anyBroken() {
		name := "rules"
		if len(b.docs) > 0 {
			name = b.docs[0].file
		}
		b.problems = append(b.problems, Problem{File: name, Check: "no-rules", Message: "there are no rules", Fix: "name a folder or file with a pack"})
		return false
	}
	return true
}

func (b *builder) anyBroken() bool { return slices.ContainsFunc(b.docs, (*Document).HasErrors) }

func (b *builder) checkPacks() {
	names := map[string]*Document{}
	for _, d := range b.docs {
		if d.pack == nil {
			continue
		}
		h := &d.pack.Pack
		b.checkRequires(d)
		if b.opt.Shipped {
			b.checkCounted(d.parsed().pack)
		}
		if other := names[h.Name]; other != nil && h.Name != "" {
			b.addWarning(d.parsed().pack.Pack.Keys.Value("name"), "duplicate-pack", fmt.Sprintf("%s also has a pack named %s", other.file, h.Name), "rename one of them: overrides for pack:"+h.Name+" change both")
			continue
		}
		names[h.Name] = d
	}
}

// checkCounted checks that the header of a shipped pack states the number of rules.
func (b *builder) checkCounted(p *PackFile) {
	if p.Pack.Keys.Lacks("rules") && !p.Keys.Lacks("pack") {
		b.addError(p.Keys.Key("pack"), "no-rule-count", "the header does not state the number of rules",
			fmt.Sprintf("add `rules: %d` to the header, so that a truncated file is refused", len(p.Rules)))
	}
}

func (b *builder) checkRequires(d *Document) {
	h := &d.pack.Pack
	version, err := semver.NewVersion(b.opt.Version)
	want, invalid := semver.NewConstraint(h.Requires)
	if h.Requires == "" || err != nil || invalid != nil || versions.Check(h.Requires) != nil {
		return
	}
	// A build between two releases has the features of the next release.
	core := semver.New(version.Major(), version.Minor(), version.Patch(), "", "")
	if !want.Check(version) && !want.Check(core) {
		b.addError(d.parsed().pack.Pack.Keys.Value("requires"), "requires",
			fmt.Sprintf("the pack requires crowsnest %s, but this is %s", h.Requires, b.opt.Version), "upgrade crowsnest, or use an older version of the pack")
	}
}

// checkNames reports rules whose name is in use. A document of a namespace with such a rule is refused as a whole, so its
// other names stay free for the documents after it.
func (b *builder) checkNames() {
	first := map[string]*packRule{}
	for rest := b.rules; len(rest) > 0; {
		d := rest[0].doc
		own := rest[:len(d.rules)]
		rest = rest[len(d.rules):]
		clash := false
		for _, r := range own {
			if other := first[foldName(r.alert)]; r.alert != "" && other != nil {
				clash, r.duplicate = true, true
				b.problems = append(b.problems, other.writtenForm().duplicateProblem(r.writtenForm()))
			}
		}
		for _, r := range own {
			switch name := foldName(r.alert); {
			case clash && d.namespace != "":
				r.duplicate = true
			case first[name] == nil:
				first[name] = r
			}
		}
	}
}

func (b *builder) applyOverrides() {
	for _, d := range b.docs {
		if d.overrides == nil {
			continue
		}
		for i := range d.overrides.Overrides {
			e := &d.overrides.Overrides[i]
			if _, err := path.Match(ruleGlob(e.Rule), ""); err != nil || e.Rule == "" {
				continue // Parse has already reported the error
			}
			b.applyTo(e)
		}
	}
	for _, r := range b.rules {
		if r.overridden && !(r.doc.HasErrors() && r.rule == nil) {
			b.compileOverridden(r)
		}
	}
}

func (b *builder) compileOverridden(r *packRule) {
	packed, form := r.rule, r.writtenForm()
	rule, problems := compileSafely(*form)
	if r.rule = rule; r.relabelled && rule != nil && packed != nil {
		rule.PackRule = packed
	}
	by := form.Keys.Key("by")
	for i, p := range problems {
		// The pack alone has no such problem, so the override's new `by` causes the problem.
		if form.Keys.Has("by") && by.File() != r.doc.file && p.File == r.doc.file && !slices.Contains(r.doc.problems, p) {
			message := fmt.Sprintf("%s (%s:%d:%d)", p.Message, p.File, p.Line, p.Column)
			problems[i] = form.newProblem(by, p.Level, p.Check, message, "choose another `by`, or copy the rule into a pack of your own under a new name")
		}
	}
	b.problems = append(b.problems, problems...)
}

func (b *builder) applyTo(e *OverrideSyntax) {
	found := false
	for _, r := range b.rules {
		if r.doc.namespace != "" || !e.appliesTo(r.alert, r.doc.Pack()) {
			continue
		}
		found = true
		e.apply(r.writtenForm())
		r.overridden, r.written.released = true, false
		r.relabelled = r.relabelled || e.changesAlerts()
	}
	if !found {
		b.addError(e.Keys.Value("rule"), "no-such-rule", fmt.Sprintf("the override matches no rule: %.80q", e.Rule), b.suggestRule(e.Rule))
	}
}

// suggestRule returns a fix that names the rule with the most similar name.
func (b *builder) suggestRule(rule string) string {
	var names []string
	for _, r := range b.rules {
		name := r.alert
		if strings.HasPrefix(rule, "pack:") {
			name = "pack:" + r.doc.Pack()
		}
		names = append(names, name)
	}
	return strictyaml.SuggestName(rule, names, "name a loaded rule, a glob of names or pack:NAME; remove overrides of rules that no longer exist")
}

// lint checks the effective rules. It does nothing if all rules come from compiled packs, because these were checked
// together before the release.
func (b *builder) lint() {
	if !b.opt.Shipped && !slices.ContainsFunc(b.rules, func(r *packRule) bool { return r.doc.reparse == nil || r.overridden }) {
		return
	}
	literals := map[string]*packRule{}
	for _, r := range b.rules {
		if r.rule == nil {
			continue
		}
		if b.opt.Shipped && !r.doc.HasErrors() {
			b.problems = append(b.problems, lintShipped(r.writtenForm(), r.rule)...)
		}
		for _, key := range shadowKeys(r.rule) {
			other := literals[key]
			if other == nil {
				literals[key] = r
				continue
			}
			if other.doc != r.doc && !r.duplicate && !excludes(other.rule, r.rule) && !excludes(r.rule, other.rule) {
				b.problems = append(b.problems, r.writtenForm().newProblem(r.writtenForm().at, strictyaml.Warning, "shadowed",
					fmt.Sprintf("rule %s matches the same text in the same streams as %s at %s", r.alert, other.alert, other.writtenForm().at),
					"remove one of them, or add a text that only the lines of one have"))
				break
			}
		}
	}
}

// shadowKeys returns strings that identify approximately which lines trigger a rule. Each string consists of a selector
// and the texts of which a line must contain one.
func shadowKeys(r *Rule) []string {
	var out []string
	for _, s := range r.Steps {
		var labels []string
		for _, m := range s.From.Matchers() {
			labels = append(labels, m.String())
		}
		from := strings.Join(sortedUnique(labels), ",")
		if texts, n := s.Matcher.Required().Longest(); n >= minLiteral {
			names := make([]string, len(texts))
			for i, t := range texts {
				names[i] = t.Text
			}
			out = append(out, from+"\x00"+strings.Join(sortedUnique(names), "\x00"))
		}
	}
	return out
}

// excludes reports whether the `not` of a refuses every line that triggers b.
func excludes(a, b *Rule) bool {
	if len(a.Steps) != 1 || len(b.Steps) != 1 {
		return false
	}
	not := a.Steps[0].Matcher.Not
	return not != nil && implies(b.Steps[0].Matcher, *not)
}

// newProblems returns the problems that Parse has not already reported.
func (b *builder) newProblems() Problems {
	known := map[string]bool{}
	for _, d := range b.docs {
		for _, p := range d.problems {
			known[p.String()] = true
		}
	}
	return slices.DeleteFunc(tidyProblems(b.problems), func(p Problem) bool { return known[p.String()] })
}

func (b *builder) buildSet(own Problems) *Set {
	s := &Set{Namespaces: b.opt.Namespaces}
	packs := map[*Document]*Pack{}
	for _, d := range b.docs {
		if d.namespace == "" {
			s.Warnings = append(s.Warnings, d.problems.Warnings()...)
		}
		if d.pack == nil {
			continue
		}
		p := &Pack{Name: d.Pack(), Version: d.pack.Pack.Version, File: d.file, SHA256: d.sha, Namespace: d.namespace}
		packs[d] = p
		s.Packs = append(s.Packs, p)
	}
	for _, r := range b.rules {
		packs[r.doc].Rules = append(packs[r.doc].Rules, r.rule)
		s.Rules = append(s.Rules, r.rule)
	}
	for _, p := range own.Warnings() {
		if !b.isOwned(p.File) {
			s.Warnings = append(s.Warnings, p)
		}
	}
	s.Warnings = tidyProblems(s.Warnings)
	return s
}
