package rules

import (
	"fmt"
	"path"
	"strings"

	"github.com/Masterminds/semver/v3"

	"crowsnest/strictyaml"
)

// Options say for what rules are built.
type Options struct {
	// Shipped asks for what the packs of this repository must have: their
	// number of rules, and tests of each rule.
	Shipped bool
	// Version of the program, for `requires`. "" or one that is no version
	// (such as "dev") meets every requirement.
	Version string
	// Namespaces become Set.Namespaces.
	Namespaces *Namespaces
}

// builder joins documents to a set.
type builder struct {
	opt      Options
	docs     []*Document
	problems Problems
	rules    []*builtRule
	// doubled are rules whose name another pack has.
	doubled map[*builtRule]bool
}

type builtRule struct {
	doc       *Document
	form      form
	rule      *Rule // nil if it has errors
	overruled bool
}

// Build joins packs and overrides to the set of effective rules, in the order
// of docs, and checks them against each other. It does not change docs: they can
// be kept and built again. Broken documents serve only to be checked against;
// their problems, which Parse returned, are not repeated. The set is nil if there
// are errors, in docs or among the problems that are returned.
func Build(docs []*Document, opt Options) (*Set, Problems) {
	b := &builder{opt: opt, docs: docs, doubled: map[*builtRule]bool{}}
	broken := false
	for _, d := range docs {
		broken = broken || d.Broken()
	}
	if !b.collect() {
		return nil, tidy(b.problems)
	}
	b.checkPacks()
	b.checkNames()
	b.override()
	b.lint()
	b.checkTests()
	own := b.fresh()
	if broken || len(own.Errors()) > 0 {
		return nil, own
	}
	return b.set(own), own
}

// collect makes a form of each rule, or refuses what is too much or nothing.
func (b *builder) collect() bool {
	n := 0
	for _, d := range b.docs {
		n += len(d.rules)
		if n > MaxRules {
			b.add(d.start.Problem(strictyaml.Error, "too-many-rules", fmt.Sprintf("there are more than %d rules up to here", MaxRules), "load fewer packs"))
			return false
		}
		for _, r := range d.rules {
			b.rules = append(b.rules, &builtRule{doc: d, form: r.form.copy(), rule: r.rule})
		}
	}
	if n == 0 && !b.anyBroken() {
		name := "rules"
		if len(b.docs) > 0 {
			name = b.docs[0].file
		}
		b.add(Problem{File: name, Check: "no-rules", Message: "there are no rules", Fix: "name a folder or file with a pack"})
		return false
	}
	return true
}

func (b *builder) anyBroken() bool {
	for _, d := range b.docs {
		if d.Broken() {
			return true
		}
	}
	return false
}

func (b *builder) add(p Problem) { b.problems = append(b.problems, p) }

// checkPacks checks the headers of the packs.
func (b *builder) checkPacks() {
	names := map[string]*Document{}
	for _, d := range b.docs {
		if d.pack == nil {
			continue
		}
		h := &d.pack.Pack
		b.checkRequires(d)
		if b.opt.Shipped && h.Keys.Missing("rules") && !d.pack.Keys.Missing("pack") {
			b.add(d.pack.Keys.Key("pack").Problem(strictyaml.Error, "no-rule-count", "the pack does not say how many rules it has",
				fmt.Sprintf("add `rules: %d` to the header, so that a file that was cut off is refused", len(d.pack.Rules))))
		}
		if other := names[h.Name]; other != nil && h.Name != "" {
			b.add(h.Keys.Value("name").Problem(strictyaml.Warning, "duplicate-pack",
				fmt.Sprintf("pack %s is also in %s", h.Name, other.file), "name packs apart: overrides for pack:"+h.Name+" change both"))
			continue
		}
		names[h.Name] = d
	}
}

func (b *builder) checkRequires(d *Document) {
	h := &d.pack.Pack
	version, err := semver.NewVersion(b.opt.Version)
	if h.Requires == "" || err != nil || CheckVersions(h.Requires) != nil {
		return
	}
	want, err := semver.NewConstraint(h.Requires)
	if err != nil {
		return
	}
	// A build between two releases has what the next one has.
	core := semver.New(version.Major(), version.Minor(), version.Patch(), "", "")
	if !want.Check(version) && !want.Check(core) {
		b.add(h.Keys.Value("requires").Problem(strictyaml.Error, "requires",
			fmt.Sprintf("the pack requires crowsnest %s, this is %s", h.Requires, b.opt.Version), "upgrade crowsnest, or use an older version of the pack"))
	}
}

// checkNames finds alerts that two files have.
func (b *builder) checkNames() {
	first := map[string]*builtRule{}
	for _, r := range b.rules {
		name := foldName(r.form.Alert)
		other := first[name]
		if name == "" || other == nil {
			first[name] = r
			continue
		}
		if other.doc == r.doc {
			continue
		}
		b.doubled[r] = true
		b.add(other.form.duplicate(&r.form))
	}
}

// override applies the overrides in order and compiles what they change.
func (b *builder) override() {
	for _, d := range b.docs {
		if d.overrides == nil {
			continue
		}
		for i := range d.overrides.Overrides {
			e := &d.overrides.Overrides[i]
			if _, err := path.Match(ruleGlob(e.Rule), ""); err != nil || e.Rule == "" {
				continue // Parse has reported it
			}
			b.applyTo(e)
		}
	}
	for _, r := range b.rules {
		if !r.overruled || r.doc.Broken() && r.rule == nil {
			continue
		}
		rule, problems := compileSafely(r.form)
		b.problems = append(b.problems, problems...)
		r.rule = rule
	}
}

func (b *builder) applyTo(e *OverrideSyntax) {
	found := false
	for _, r := range b.rules {
		if !e.applies(&r.form) {
			continue
		}
		found = true
		e.apply(&r.form)
		r.overruled = true
	}
	if !found {
		b.add(e.Keys.Value("rule").Problem(strictyaml.Error, "no-such-rule", fmt.Sprintf("the override matches no rule: %.80q", e.Rule), b.similar(e.Rule)))
	}
}

// similar says which rule was probably meant.
func (b *builder) similar(rule string) string {
	var names []string
	for _, r := range b.rules {
		name := r.form.Alert
		if strings.HasPrefix(rule, "pack:") {
			name = "pack:" + r.form.pack
		}
		names = append(names, name)
	}
	if best := strictyaml.Closest(rule, names); best != "" {
		return "did you mean " + best + "?"
	}
	return "name a rule that is loaded, a glob of names or pack:NAME; remove overrides of rules that are gone"
}

// lint checks the effective rules.
func (b *builder) lint() {
	literals := map[string]*builtRule{}
	for _, r := range b.rules {
		if r.rule == nil {
			continue
		}
		if b.opt.Shipped && !r.doc.Broken() {
			b.problems = append(b.problems, lintShipped(&r.form, r.rule)...)
		}
		for _, key := range shadowKeys(r.rule) {
			other := literals[key]
			if other == nil {
				literals[key] = r
				continue
			}
			if other.doc != r.doc && !b.doubled[r] {
				b.add(r.form.problem(r.form.at, strictyaml.Warning, "shadowed",
					fmt.Sprintf("rule %s reads the same streams for the same text as %s at %s", r.form.Alert, other.form.Alert, other.form.at),
					"remove one of them, or tell their lines apart"))
				break
			}
		}
	}
}

// shadowKeys identifies the lines that trigger a rule, roughly: its selector
// with the texts that its lines must have.
func shadowKeys(r *Rule) []string {
	var labels []string
	for _, m := range r.From.Matchers() {
		labels = append(labels, m.String())
	}
	from := strings.Join(sortedUnique(labels), ",")
	var out []string
	for _, s := range r.Steps {
		if texts := requiredTexts(s.Matcher); gated(texts) {
			out = append(out, from+"\x00"+strings.Join(sortedUnique(texts), "\x00"))
		}
	}
	return out
}

// fresh returns the problems that no document has yet.
func (b *builder) fresh() Problems {
	known := map[string]bool{}
	for _, d := range b.docs {
		for _, p := range d.problems {
			known[p.String()] = true
		}
	}
	var out Problems
	for _, p := range tidy(b.problems) {
		if !known[p.String()] {
			out = append(out, p)
		}
	}
	return out
}

func (b *builder) set(own Problems) *Set {
	s := &Set{Namespaces: b.opt.Namespaces}
	packs := map[*Document]*Pack{}
	for _, d := range b.docs {
		s.Warnings = append(s.Warnings, d.problems.Warnings()...)
		if d.pack == nil {
			continue
		}
		p := &Pack{Name: d.Pack(), Version: d.Version(), File: d.file, SHA256: d.sha}
		packs[d] = p
		s.Packs = append(s.Packs, p)
	}
	for _, r := range b.rules {
		packs[r.doc].Rules = append(packs[r.doc].Rules, r.rule)
		s.Rules = append(s.Rules, r.rule)
	}
	s.Warnings = tidy(append(s.Warnings, own.Warnings()...))
	return s
}
