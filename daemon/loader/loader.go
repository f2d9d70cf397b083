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
	"crowsnest/rules"
	"crowsnest/strictyaml"
	"crowsnest/web"
)

// Loader loads the rules that a configuration names, and remembers the last good
// version of each file.
type Loader struct {
	// good holds what is in force, by file. It holds bytes, not documents: those
	// are several times larger, and needed again only if a new version is refused.
	good map[string]inForce
	// tested holds the hashes of packs that passed their own tests.
	tested map[string]bool
	// texts holds the contents of the files being loaded, by their hash.
	texts map[string][]byte
}

// inForce is the version of a file that is in force.
type inForce struct {
	pack string // its name; "" for overrides
	sha  string
	text []byte // nil for a file that is part of the program: it does not change
}

// New returns a Loader that has loaded nothing.
func New() *Loader {
	return &Loader{good: map[string]inForce{}, tested: map[string]bool{}}
}

// parse reads and parses the files that a configuration names.
func (l *Loader) parse(cfg *config.Config) ([]*rules.Document, rules.Problems) {
	files, problems := ruleFiles(cfg)
	docs, found := ParseFiles(files)
	l.texts = map[string][]byte{}
	for i, d := range docs {
		l.texts[d.SHA256()] = files[i].Data
	}
	return docs, append(problems, found...)
}

// OrKept loads everything for a start. Where that fails, it falls back to the versions
// that were in force in the last run. wrong is the error of the first load if OrKept fell back.
func (l *Loader) OrKept(cfg *config.Config, kept []rules.File) (out Loaded, wrong, err error) {
	docs, _ := ParseFiles(kept)
	for i, d := range docs {
		if !d.Broken() {
			l.good[d.File()] = inForce{pack: d.Pack(), sha: d.SHA256(), text: kept[i].Data}
		}
	}
	out, err = l.First(cfg)
	if err == nil || len(kept) == 0 {
		return out, nil, err
	}
	out, again := l.Again(cfg)
	if again != nil {
		return Loaded{}, nil, err
	}
	return out, err, nil
}

// InForce returns the files that are in force, without those that are part of
// the program.
func (l *Loader) InForce() []rules.File {
	var out []rules.File
	for _, name := range slices.Sorted(maps.Keys(l.good)) {
		if !strings.HasPrefix(name, shippedPrefix) {
			out = append(out, rules.File{Name: name, Data: l.good[name].text})
		}
	}
	return out
}

// Loaded is the outcome of a load.
type Loaded struct {
	Set *rules.Set
	// Broken are the packs that were refused; their last good version is in set.
	Broken []web.BrokenPack
}

// errNoRules refuses a reload that would leave no rule.
var errNoRules = errors.New("no rule would be left: the rules that are in force stay; set rules.allow_empty if that is meant")

// First loads everything for a start: the error lists every problem.
func (l *Loader) First(cfg *config.Config) (Loaded, error) {
	docs, problems := l.parse(cfg)
	set, found := buildConfigured(cfg, docs)
	if errs := append(problems, found...).Errors(); len(errs) > 0 {
		errs.Sort()
		return Loaded{}, fmt.Errorf("load rules:\n%w", errs)
	}
	l.keep(docs)
	compact(set)
	return Loaded{Set: set}, nil
}

// Again loads everything again. A file that is refused, by the lint or by its own
// tests, keeps its last good version and is listed in Broken; a new file is omitted.
// An error means that nothing changes.
func (l *Loader) Again(cfg *config.Config) (Loaded, error) {
	docs, problems := l.parse(cfg)
	if errs := unread(problems); len(errs) > 0 {
		return Loaded{}, fmt.Errorf("load rules:\n%w", errs)
	}
	var out Loaded
	refuse := func(d *rules.Document, why string) {
		out.Broken = append(out.Broken, web.BrokenPack{Pack: l.packName(d), Error: why, Missing: l.good[d.File()].sha == ""})
		docs = l.replace(docs, d)
	}
	for _, d := range slices.Clone(docs) {
		if d.Broken() {
			refuse(d, d.Problems().Errors().Error())
		}
	}
	for {
		set, found := buildConfigured(cfg, docs)
		if errs := found.Errors(); len(errs) > 0 {
			d := l.culprit(docs, errs)
			if d == nil {
				return Loaded{}, fmt.Errorf("load rules:\n%w", errs)
			}
			refuse(d, errs.Error())
			continue
		}
		d, why, err := l.untested(set, docs)
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
	l.keep(docs)
	compact(out.Set)
	return out, nil
}

// compact frees what the load alone needed, and moves the rest together. Rules that are part of
// the program are small already.
func compact(set *rules.Set) {
	forgetWritten(set)
	var all []*rules.Rule
	for _, r := range set.Rules {
		if strings.HasPrefix(r.File, shippedPrefix) && r.Packed == nil {
			continue
		}
		for ; r != nil; r = r.Packed {
			all = append(all, r)
		}
	}
	rules.Compact(all)
}

// forgetWritten frees what only the checks of a load need: the tests of rules, which take
// more memory than the rules and have run by now, and positions, which hold the files.
func forgetWritten(set *rules.Set) {
	for _, r := range set.Rules {
		for ; r != nil; r = r.Packed {
			r.Tests, r.FromAt = nil, strictyaml.Pos{}
			for _, c := range []*rules.ClearOrUnless{r.Clear, r.Unless} {
				if c != nil {
					c.At = strictyaml.Pos{}
				}
			}
			for i := range r.Causes {
				r.Causes[i].At = strictyaml.Pos{}
			}
		}
	}
}

func unread(problems rules.Problems) rules.Problems {
	var out rules.Problems
	for _, p := range problems.Errors() {
		if p.Check == "read" || p.Line == 0 && p.Check == "too-large" {
			out = append(out, p)
		}
	}
	return out
}

// packName returns the name of a pack, else that of its last good version, else its
// file.
func (l *Loader) packName(d *rules.Document) string {
	if d.Pack() != "" {
		return d.Pack()
	}
	return cmp.Or(l.good[d.File()].pack, d.File())
}

// replace puts the last good version of a file in the place of d, or nothing.
func (l *Loader) replace(docs []*rules.Document, d *rules.Document) []*rules.Document {
	i := slices.Index(docs, d)
	if old := l.good[d.File()]; old.text != nil && old.sha != d.SHA256() {
		docs[i], _ = rules.Parse(rules.File{Name: d.File(), Data: old.text})
		l.texts[old.sha] = old.text
		return docs
	}
	return slices.Delete(docs, i, i+1)
}

// culprit returns a document that is not in force and has one of the problems, else
// any document that is not in force: the set in force has no errors.
func (l *Loader) culprit(docs []*rules.Document, problems rules.Problems) *rules.Document {
	var any *rules.Document
	for _, d := range docs {
		if l.same(d) {
			continue
		}
		any = d
		if slices.ContainsFunc(problems, func(p rules.Problem) bool { return p.File == d.File() }) {
			return d
		}
	}
	return any
}

// same reports whether a document is already in force.
func (l *Loader) same(d *rules.Document) bool {
	return l.good[d.File()].sha == d.SHA256()
}

// untested runs the tests of new packs, and returns the first that fails them.
func (l *Loader) untested(set *rules.Set, docs []*rules.Document) (*rules.Document, string, error) {
	for _, p := range set.Packs {
		if l.tested[p.SHA256] {
			continue
		}
		failed, err := failedTests(p)
		if err != nil {
			return nil, "", err
		}
		if failed == "" {
			l.tested[p.SHA256] = true
			continue
		}
		i := slices.IndexFunc(docs, func(d *rules.Document) bool { return d.File() == p.File })
		if i < 0 || l.same(docs[i]) {
			continue // overrides changed it: a pack in force is not refused
		}
		return docs[i], failed, nil
	}
	return nil, "", nil
}

// keep makes docs the last good versions.
func (l *Loader) keep(docs []*rules.Document) {
	clear(l.good)
	for _, d := range docs {
		v := inForce{pack: d.Pack(), sha: d.SHA256()}
		if !strings.HasPrefix(d.File(), shippedPrefix) {
			v.text = bytes.Clone(l.texts[v.sha]) // without the room that reading left behind it
		}
		l.good[d.File()] = v
		if !d.IsOverrides() {
			l.tested[v.sha] = true
		}
	}
	l.texts = nil
}
