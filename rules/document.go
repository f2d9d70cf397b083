package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"crowsnest/internal/strictyaml"
	"crowsnest/rules/rulefiles"
	"crowsnest/rules/versions"
)

// maxRules is the maximum number of rules in all packs together.
const maxRules = 5000

// Document is one parsed file, which is a pack or overrides. It is immutable.
type Document struct {
	report
	file      string
	sha       string
	namespace string // owner of the file; empty for a file of the operator
	cluster   string // File.Cluster
	start     strictyaml.Pos
	pack      *PackFile
	overrides *OverridesFile
	rules     []packRule // rules before overrides are applied
	// reparse returns the document as parsed from the pack's YAML. It is nil unless the document comes from a compiled
	// pack.
	reparse func() *Document
}

type packRule struct {
	doc   *Document
	alert string
	// written is the form of the rule. For a rule of a compiled pack, it is nil until it is needed. Use writtenForm to
	// read it.
	written *form
	rule    *Rule // compiled rule; nil if the rule has errors
	// Build sets these fields on its own copies. overridden means that an override changed the rule. relabelled means
	// that an override changed what the rule's alerts look like. duplicate means that another pack has a rule of the
	// same name.
	overridden, relabelled, duplicate bool
}

// writtenForm returns the form of a rule. For a compiled pack, the first call parses the pack.
func (r *packRule) writtenForm() *form {
	if r.written == nil {
		all := r.doc.parsed().rules
		i := slices.IndexFunc(all, func(o packRule) bool { return o.alert == r.alert })
		r.written = all[i].written.clone()
	}
	return r.written
}

// File returns the name of the file.
func (d *Document) File() string { return d.file }

// SHA256 returns the SHA-256 hash of the file's bytes, in hex.
func (d *Document) SHA256() string { return d.sha }

// IsOverrides reports whether the file contains overrides instead of a pack.
func (d *Document) IsOverrides() bool { return d.overrides != nil }

// Pack returns the name of the pack, or "" for a file of overrides. The name of a pack with an owner begins with the
// owner, as in team-a/web.
func (d *Document) Pack() string {
	if d.pack == nil {
		return ""
	}
	return ownedPackName(d.namespace, d.pack.Pack.Name)
}

// Problems returns the problems that Parse found. The caller must not change it.
func (d *Document) Problems() Problems { return d.problems }

// HasErrors reports whether Parse found errors.
func (d *Document) HasErrors() bool { return len(d.problems.Errors()) > 0 }

// Parse parses one file and checks everything that does not depend on other files. Fields of File can make it omit some
// of this work. The document is never nil. If the document has errors, Build uses it only to check other files. The
// document keeps a reference to f.Data, which must not change.
func Parse(f File) (*Document, Problems) {
	if f.Compiled != "" {
		return parseCompiled(f), nil
	}
	sum := sha256.Sum256(f.Data)
	d := &Document{file: f.Name, sha: hex.EncodeToString(sum[:]), namespace: f.Namespace, cluster: f.Cluster}
	doc, problems := strictyaml.Parse(f.Name, f.Data, strictyaml.Options{MaxBytes: rulefiles.MaxBytes})
	d.problems = problems
	switch {
	case doc == nil:
	case doc.Has("overrides") && (doc.Has("pack") || doc.Has("rules")):
		d.addError(doc.KeyPos("overrides"), "file-kind", "the file has both a pack and overrides", "put the overrides into a file of their own")
	case doc.Has("overrides") && f.Namespace != "":
		d.refuseOwnedOverrides(doc.KeyPos("overrides"))
	case doc.Has("overrides"):
		d.parseOverrides(doc)
	case doc.Has("groups") && !doc.Has("pack"):
		d.addError(doc.KeyPos("groups"), "file-kind", "this is a Prometheus rule file, not a pack", "start the file with `pack: {name: NAME}`")
	default:
		d.parsePack(doc, f)
	}
	d.problems = tidyProblems(d.problems)
	return d, d.problems
}

func (d *Document) parsePack(doc *strictyaml.Document, file File) {
	d.pack, d.start = &PackFile{}, doc.Start()
	d.problems = append(d.problems, doc.Decode(d.pack)...)
	p := d.pack
	if p.Keys.Lacks("pack") {
		d.addError(doc.Start(), "missing-key", "the file lacks `pack`", "start it with `pack: {name: NAME, version: 0.1.0}`")
	}
	d.checkHeader()
	if !d.checkRuleCount(file.Data) {
		return
	}
	seen, decoded := map[string]form{}, len(d.problems)
	work := newBudget(file.Namespace != "")
	next := nextRules(p.Rules)
	line := 0 // line of the previous rule
	for i := range p.Rules {
		f := newForm(p, &p.Rules[i], d.file)
		if !f.isDecoded() {
			continue
		}
		f.next, f.shares = next[i], f.Keys.Pos.Line == line || f.Keys.Pos.Line == next[i].Line
		line = f.Keys.Pos.Line
		f.released, f.namespace, f.cluster, f.pack = file.Released, file.Namespace, file.Cluster, ownedPackName(file.Namespace, f.pack)
		if file.WithoutTests {
			p.Rules[i].Tests, f.Tests = nil, nil
			delete(f.origin, "tests")
		}
		f.assignName(d.problems[:decoded])
		if problem, fix := work.addCost(f.expressions()); problem != "" {
			d.addError(f.at, "too-costly", problem, fix)
			return
		}
		rule, problems := compileSafely(f)
		if first, twice := seen[foldName(f.Alert)]; twice && f.Alert != "" {
			problems = append(problems, first.duplicateProblem(&f))
		} else {
			seen[foldName(f.Alert)] = f
		}
		d.problems = append(d.problems, problems...)
		if len(problems.Errors()) > 0 || f.Keys.HasAnyError() {
			rule = nil
		}
		d.rules = append(d.rules, packRule{doc: d, alert: f.Alert, written: &f, rule: rule})
	}
}

// nextRules returns, for each rule, the position of the next rule. It skips entries that are not mappings.
func nextRules(all []RuleSyntax) []strictyaml.Pos {
	out := make([]strictyaml.Pos, len(all))
	var next strictyaml.Pos
	for i := range slices.Backward(all) {
		out[i] = next
		if at := all[i].Keys.Pos; !at.IsZero() {
			next = at
		}
	}
	return out
}

// assignName sets the name of the rule in the problems that were found while the rule was decoded.
func (f *form) assignName(problems Problems) {
	if len(problems) == 0 {
		return
	}
	from, to := f.lines()
	for i := range problems {
		if p := &problems[i]; p.Rule == "" && p.Line >= from && p.Line <= to {
			p.Rule = f.Alert
		}
	}
}

// checkHeader checks the keys of `pack` that do not depend on other files.
func (d *Document) checkHeader() {
	h := &d.pack.Pack
	if h.Keys.IsDecoded("name") && strings.TrimSpace(h.Name) == "" {
		d.addError(h.Keys.Value("name"), "empty-value", "the pack's `name` is empty", "write a name")
	}
	if d.namespace != "" && strings.TrimSpace(h.Name) != "" && !ownedName.MatchString(h.Name) {
		d.addError(h.Keys.Value("name"), "owner", "the name of a pack of a namespace has only ASCII letters, digits, _ and -", "choose another name")
	}
	if h.Keys.IsDecoded("requires") {
		if err := versions.Check(h.Requires); err != nil {
			d.addInvalid(h.Keys.Value("requires"), h.Requires, "requires", "`requires`", err)
		}
	}
	checkDefaults(d)
}

// checkRuleCount compares the numbers of rules and tests in the header with the content of the file. It reports whether
// the rules should be compiled.
func (d *Document) checkRuleCount(data []byte) bool {
	p, h := d.pack, &d.pack.Pack
	got := len(p.Rules)
	stated := h.Keys.IsDecoded("rules")
	switch {
	case p.Keys.HasError("rules") && got == 0:
		return false
	case got == 0 && !p.Keys.Lacks("rules"):
		d.addError(p.Keys.Value("rules"), "no-rules", "the pack has no rules", "add a rule, or remove the file")
	case got == 0 && p.Keys.Lacks("pack"):
		// The problem that `rules` is missing has already been reported.
	case got == 0 && p.Keys.Lacks("rules"):
		d.addError(p.Keys.Key("pack"), "no-rules", "the pack has no `rules`: the file may be truncated", "add a rule, or remove the file")
	case got > maxRules:
		d.addError(p.Keys.Key("rules"), "too-many-rules", fmt.Sprintf("the pack has %d rules, more than %d", got, maxRules), "divide the pack, and load fewer rules")
		return false
	}
	tests := 0
	for i := range p.Rules {
		tests += len(p.Rules[i].Tests)
	}
	switch {
	case stated && h.Rules != got:
		d.wrongCount("rules", h.Rules, got)
	case h.Keys.IsDecoded("tests") && h.Tests != tests:
		d.wrongCount("tests", h.Tests, tests)
	case stated && truncatedInLine(data):
		d.addError(p.Keys.Pos.End(), "cut-off", "the file ends in the middle of a line: it may be truncated",
			"write the complete file again, or end its last line with a line break")
	}
	return got > 0
}

func (d *Document) wrongCount(key string, stated, got int) {
	d.addError(d.pack.Pack.Keys.Value(key), "rule-count", fmt.Sprintf("the header states %d %s, but the file has %d", stated, key, got),
		fmt.Sprintf("if the file is truncated, write it again; otherwise write %s: %d", key, got))
}

// truncatedInLine reports whether the file may end in the middle of a line. This is so if the last line has no line
// break, and no closing bracket or quote shows that the line is complete.
func truncatedInLine(data []byte) bool {
	return len(data) > 0 && !strings.ContainsRune("\n]}\"'", rune(data[len(data)-1]))
}

func tidyProblems(ps Problems) Problems {
	seen := map[Problem]bool{}
	var out Problems
	for _, p := range ps {
		if k := (Problem{File: p.File, Check: p.Check, Message: p.Message, Line: p.Line, Column: p.Column}); !seen[k] {
			seen[k] = true
			out = append(out, p)
		}
	}
	out.Sort()
	return out
}
