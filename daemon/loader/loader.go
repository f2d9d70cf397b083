package loader

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"crowsnest/daemon/config"
	"crowsnest/internal/strictyaml"
	"crowsnest/rules"
	"crowsnest/web"
)

// Loader loads the rules of a configuration, and remembers the last valid version of each file.
type Loader struct {
	// good holds the active version of each file. It keeps bytes instead of parsed documents, because documents are
	// several times as large and rarely needed again.
	good   map[string]activeFile
	tested map[string]bool
	// texts holds the contents of the files in the current load. The key is the hash of the file.
	texts map[string][]byte
	// owned are the files of namespaces. refused contains the reasons why some of these files were refused. The key is
	// the name of the file.
	owned   []rules.File
	refused map[string]refusal
	// passed holds the hashes of files of namespaces whose tests have passed. The key is the name of the file.
	passed map[string]string
}

type activeFile struct {
	pack      string // name of the pack; "" for a file of overrides
	sha       string
	text      []byte // content of the file; nil for a shipped file, which does not change
	namespace string // owner of the file; "" for a file of the operator
	cluster   string // cluster of the owner; "" if it is not known
}

// New returns a Loader that has not loaded anything.
func New() *Loader {
	return &Loader{good: map[string]activeFile{}, tested: map[string]bool{}, refused: map[string]refusal{}, passed: map[string]string{}}
}

func (l *Loader) parse(cfg *config.Config) ([]*rules.Document, rules.Problems) {
	files, problems := ruleFiles(cfg)
	docs, found := ParseFiles(files)
	l.texts = map[string][]byte{}
	for i, d := range docs {
		l.texts[d.SHA256()] = files[i].Data
	}
	return docs, append(problems, found...)
}

// OrKept loads everything for a start. If that fails, OrKept uses the rule files that were active in the last run, and
// returns the error of the first attempt as wrong. The files of namespaces are those of the last run until SetOwned
// replaces them.
func (l *Loader) OrKept(cfg *config.Config, kept []rules.File) (out Loaded, wrong, err error) {
	docs, _ := ParseFiles(kept)
	for i, d := range docs {
		if !d.HasErrors() {
			l.good[d.File()] = activeFile{pack: d.Pack(), sha: d.SHA256(), text: kept[i].Data, namespace: d.Namespace(), cluster: d.Cluster()}
		}
		if d.Namespace() != "" {
			l.owned = append(l.owned, kept[i])
		}
	}
	out, err = l.LoadInitial(cfg)
	if err == nil || len(kept) == 0 {
		return out, nil, err
	}
	out, again := l.Reload(cfg)
	if again != nil {
		return Loaded{}, nil, err
	}
	return out, err, nil
}

// InForce returns the active files without the shipped ones.
func (l *Loader) InForce() []rules.File {
	var out []rules.File
	for _, name := range slices.Sorted(maps.Keys(l.good)) {
		if !strings.HasPrefix(name, shippedPrefix) {
			out = append(out, rules.File{Name: name, Data: l.good[name].text, Namespace: l.good[name].namespace, Cluster: l.good[name].cluster})
		}
	}
	return out
}

// Loaded is the result of a load.
type Loaded struct {
	Set *rules.Set
	// Broken lists the refused packs. The set contains the last valid version of each of them, if there is one.
	Broken []web.BrokenPack
}

var errNoRules = errors.New("no rules would be left, so the current rules stay active; set rules.allow_empty if you want an empty set")

// LoadInitial loads everything for a start. If the load fails, the error lists every problem.
func (l *Loader) LoadInitial(cfg *config.Config) (Loaded, error) {
	docs, problems := l.parse(cfg)
	set, found := buildConfigured(cfg, docs)
	if errs := append(problems, found...).Errors(); len(errs) > 0 {
		errs.Sort()
		return Loaded{}, fmt.Errorf("load rules:\n%w", errs)
	}
	out := Loaded{Set: set}
	docs, err := l.addOwned(cfg, docs, &out)
	if err != nil {
		return Loaded{}, err
	}
	l.keepAsGood(docs)
	compactSet(out.Set)
	return out, nil
}

// Reload loads everything again. If a file fails the lint or its own tests, its last valid version is used, and the
// file is listed in Broken. A refused file without a valid version is omitted. If Reload returns an error, nothing has
// changed.
func (l *Loader) Reload(cfg *config.Config) (Loaded, error) {
	docs, problems := l.parse(cfg)
	if errs := unreadProblems(problems); len(errs) > 0 {
		return Loaded{}, fmt.Errorf("load rules:\n%w", errs)
	}
	var out Loaded
	refuse := func(d *rules.Document, why string) {
		out.Broken = append(out.Broken, web.BrokenPack{Pack: l.packName(d), Error: why, Missing: l.good[d.File()].sha == "", File: d.File()})
		docs = l.replaceWithLastGood(docs, d)
	}
	for _, d := range slices.Clone(docs) {
		if d.HasErrors() {
			refuse(d, d.Problems().Errors().Error())
		}
	}
	for {
		set, found := buildConfigured(cfg, docs)
		if errs := found.Errors(); len(errs) > 0 {
			d := l.findCulprit(docs, errs)
			if d == nil {
				return Loaded{}, fmt.Errorf("load rules:\n%w", errs)
			}
			refuse(d, errs.Error())
			continue
		}
		d, why, err := l.testNew(set, docs)
		if err != nil {
			return Loaded{}, err
		}
		if d != nil {
			refuse(d, why)
			continue
		}
		out.Set = set
		break
	}
	if len(out.Set.Rules) == 0 && !cfg.Rules.AllowEmpty && len(l.good) > 0 {
		return Loaded{}, errNoRules
	}
	docs, err := l.addOwned(cfg, docs, &out)
	if err != nil {
		return Loaded{}, err
	}
	l.keepAsGood(docs)
	compactSet(out.Set)
	return out, nil
}

// compactSet frees memory that only the load needed. Shipped rules are already small.
func compactSet(set *rules.Set) {
	forgetWritten(set)
	var all []*rules.Rule
	for _, r := range set.Rules {
		if strings.HasPrefix(r.File, shippedPrefix) && r.PackRule == nil {
			continue
		}
		for ; r != nil; r = r.PackRule {
			all = append(all, r)
		}
	}
	rules.CompactRules(all)
}

// forgetWritten frees data that only the checks of a load need. These data are the tests of rules, which have already
// run, and positions, which keep the files in memory.
func forgetWritten(set *rules.Set) {
	for _, r := range set.Rules {
		for ; r != nil; r = r.PackRule {
			r.Tests, r.FromAt = nil, strictyaml.Pos{}
			for _, c := range []*rules.ClearOrUnless{r.Clear, r.Unless} {
				if c != nil {
					c.Pos = strictyaml.Pos{}
				}
			}
			for i := range r.Causes {
				r.Causes[i].Pos = strictyaml.Pos{}
			}
		}
	}
}

func unreadProblems(problems rules.Problems) rules.Problems {
	var out rules.Problems
	for _, p := range problems.Errors() {
		if p.Check == "read" || p.Line == 0 && p.Check == "too-large" {
			out = append(out, p)
		}
	}
	return out
}

// packName returns the name of the pack in d, or the name in its last valid version, or the name of the file.
func (l *Loader) packName(d *rules.Document) string {
	if d.Pack() != "" {
		return d.Pack()
	}
	return cmp.Or(l.good[d.File()].pack, d.File())
}

// replaceWithLastGood replaces d with the last valid version of its file, or removes it.
func (l *Loader) replaceWithLastGood(docs []*rules.Document, d *rules.Document) []*rules.Document {
	i := slices.Index(docs, d)
	if old := l.good[d.File()]; old.text != nil && old.sha != d.SHA256() {
		docs[i], _ = rules.Parse(rules.File{Name: d.File(), Data: old.text})
		l.texts[old.sha] = old.text
		return docs
	}
	return slices.Delete(docs, i, i+1)
}

// findCulprit returns a document that is not active and has one of the problems. If no such document exists, it returns
// any document that is not active, because active documents have no errors.
func (l *Loader) findCulprit(docs []*rules.Document, problems rules.Problems) *rules.Document {
	var any *rules.Document
	for _, d := range docs {
		if l.isInForce(d) {
			continue
		}
		any = d
		if slices.ContainsFunc(problems, func(p rules.Problem) bool { return p.File == d.File() }) {
			return d
		}
	}
	return any
}

func (l *Loader) isInForce(d *rules.Document) bool {
	return l.good[d.File()].sha == d.SHA256()
}

// testNew runs the tests of the new packs. It returns the first pack with a failed test and a description of the
// failures.
func (l *Loader) testNew(set *rules.Set, docs []*rules.Document) (*rules.Document, string, error) {
	for _, p := range set.Packs {
		if l.tested[p.SHA256] {
			continue
		}
		failed, err := failedTests(p.Rules)
		if err != nil {
			return nil, "", fmt.Errorf("test pack %s: %w", p.Name, err)
		}
		if failed == "" {
			l.tested[p.SHA256] = true
			continue
		}
		i := slices.IndexFunc(docs, func(d *rules.Document) bool { return d.File() == p.File })
		if i < 0 || l.isInForce(docs[i]) {
			continue // overrides changed the rule; an active pack is never refused
		}
		return docs[i], failed, nil
	}
	return nil, "", nil
}

func (l *Loader) keepAsGood(docs []*rules.Document) {
	clear(l.good)
	clear(l.tested)
	for _, d := range docs {
		v := activeFile{pack: d.Pack(), sha: d.SHA256(), namespace: d.Namespace(), cluster: d.Cluster()}
		if !strings.HasPrefix(d.File(), shippedPrefix) {
			v.text = bytes.Clone(l.texts[v.sha]) // a copy without the unused capacity of the buffer
		}
		l.good[d.File()] = v
		if !d.IsOverrides() {
			l.tested[v.sha] = true
		}
	}
	l.texts = nil
}
