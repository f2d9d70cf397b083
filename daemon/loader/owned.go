package loader

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/daemon/config"
	"crowsnest/rules"
	"crowsnest/web"
)

// Limits of the files of all namespaces together. Namespaces share each limit. Files of the namespaces that use the
// most are refused first.
const (
	maxOwnedBytes = 8 << 20
	maxOwnedRules = 2000
)

// refusal is the reason why a version of a file was refused.
type refusal struct{ sha, why string }

// SetOwned replaces the files of namespaces that the next load uses. If two new files have a rule of the same name,
// the earlier one in the list gets the name. An active file keeps its names.
func (l *Loader) SetOwned(files []rules.File) { l.owned = files }

// OwnedInForce returns the active files of namespaces.
func (l *Loader) OwnedInForce() []rules.File {
	return slices.DeleteFunc(l.InForce(), func(f rules.File) bool { return f.Namespace == "" })
}

// ownedLoad adds the files of namespaces to the files of the operator.
type ownedLoad struct {
	*Loader
	docs   []*rules.Document
	broken map[string]*web.BrokenPack // refused files; the key is the name
}

// addOwned adds the files of namespaces to out.Set, which was built from docs, and returns the documents of all files.
// If a file of a namespace is refused, its last valid version is used, and out.Broken lists the file. A file of a
// namespace never changes which files of the operator are active.
func (l *Loader) addOwned(cfg *config.Config, docs []*rules.Document, out *Loaded) ([]*rules.Document, error) {
	if len(l.owned) == 0 {
		return docs, nil
	}
	o := &ownedLoad{Loader: l, broken: map[string]*web.BrokenPack{}}
	if err := o.parseFiles(cfg); err != nil {
		return nil, err
	}
	for out.Set = nil; out.Set == nil; {
		for !o.limitDocuments() {
		}
		set, found := buildConfigured(cfg, slices.Concat(docs, o.docs))
		if errs := found.Errors(); len(errs) > 0 && !o.refuseFaulty(errs) {
			return nil, fmt.Errorf("load rules:\n%w", errs)
		}
		out.Set = set
	}
	for _, name := range slices.Sorted(maps.Keys(o.broken)) {
		b := o.broken[name]
		b.Missing = !slices.ContainsFunc(o.docs, func(d *rules.Document) bool { return d.File() == name })
		out.Broken = append(out.Broken, *b)
	}
	maps.DeleteFunc(l.refused, func(name string, _ refusal) bool { return o.broken[name] == nil })
	maps.DeleteFunc(l.passed, func(name, _ string) bool {
		return !slices.ContainsFunc(l.owned, func(f rules.File) bool { return f.Name == name })
	})
	return slices.Concat(docs, o.docs), nil
}

// forgedLabels reports the rules of namespaces that set a label that only the stream or the configuration may set.
func forgedLabels(cfg *config.Config, d *rules.Document) (out rules.Problems) {
	names := map[string]bool{}
	for _, name := range cfg.Global.Identity {
		names[name] = true
	}
	for _, labels := range cfg.ExternalLabels() {
		for name := range labels {
			names[name] = true
		}
	}
	for _, r := range d.Rules() {
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if setsLabel(r, name) {
				out = append(out, rules.Problem{
					File: r.File, Line: r.Line, Column: 1, Check: "owner",
					Message: fmt.Sprintf("rule %s sets the label `%s`, which identifies where alerts of crowsnest come from", r.Alert, name), Fix: "use another name",
				})
			}
		}
	}
	return out
}

// setsLabel reports whether a rule sets a label by itself or from a line.
func setsLabel(r *rules.Rule, name string) bool {
	captured := false
	for i := range r.Steps {
		captured = captured || slices.Contains(r.StepCaptures(i), name)
	}
	return captured && slices.Contains(r.By, name) ||
		slices.ContainsFunc(r.Labels, func(l rules.NamedTemplate) bool { return l.Name == name })
}

// parseFiles parses the files within the limits of their namespaces, and refuses files that are faulty by themselves.
// Active versions come first.
func (o *ownedLoad) parseFiles(cfg *config.Config) error {
	files := slices.Clone(o.owned)
	hashes := map[string]string{}
	size, count, tests := map[string]int{}, map[string]int{}, map[string]time.Duration{}
	for _, f := range files {
		sum := sha256.Sum256(f.Data)
		hashes[f.Name] = hex.EncodeToString(sum[:])
		size[f.Namespace] += len(f.Data)
	}
	isActive := func(f rules.File) bool { return o.good[f.Name].sha == hashes[f.Name] }
	slices.SortStableFunc(files, func(a, b rules.File) int {
		switch {
		case isActive(a) == isActive(b):
			return 0
		case isActive(a):
			return -1
		}
		return 1
	})
	share := fairShare(size, rules.MaxOwnedBytes, maxOwnedBytes)
	clear(size)
	for _, f := range files {
		sha := hashes[f.Name]
		switch why := o.refused[f.Name]; {
		case f.Unread != "":
			o.refuse(f, sha, f.Unread)
			continue
		case why.sha == sha:
			o.refuse(f, sha, why.why)
			continue
		}
		if size[f.Namespace]+len(f.Data) > share || count[f.Namespace] >= rules.MaxOwnedFiles {
			o.refuse(f, sha, limitProblem(f, sizeProblem(f.Namespace, share)))
			continue
		}
		d, problems := rules.Parse(f)
		if errs := problems.Errors(); len(errs) > 0 {
			o.refuseVersion(f, sha, errs.Error())
			continue
		}
		if errs := forgedLabels(cfg, d); len(errs) > 0 {
			o.refuse(f, sha, errs.Error())
			continue
		}
		allTests := tests[f.Namespace] + rules.TestTime(d.Rules())
		if allTests > rules.MaxOwnedTestTime {
			o.refuse(f, sha, limitProblem(f, fmt.Sprintf("with this file, the inline tests may take %s of CPU time; all packs of namespace %s are allowed %s", allTests.Round(time.Second), f.Namespace, rules.MaxOwnedTestTime)))
			continue
		}
		tests[f.Namespace] = allTests
		failed, err := o.runTests(d)
		switch {
		case err != nil:
			return err
		case failed != "":
			o.refuseVersion(f, sha, failed)
			continue
		}
		count[f.Namespace]++
		size[f.Namespace] += len(f.Data)
		o.docs = append(o.docs, d)
		o.texts[d.SHA256()] = f.Data
	}
	return nil
}

// runTests runs the tests of a new version of a file, and describes those that fail. Rules of other files do not change
// the result.
func (o *ownedLoad) runTests(d *rules.Document) (failed string, err error) {
	if o.passed[d.File()] == d.SHA256() || o.isInForce(d) {
		return "", nil
	}
	if failed, err = failedTests(d.Rules()); err != nil {
		return "", fmt.Errorf("test pack %s: %w", d.Pack(), err)
	}
	if failed == "" {
		o.passed[d.File()] = d.SHA256()
	}
	return failed, nil
}

// limitDocuments refuses files with which a namespace has too many or too large files, or too many or too costly rules.
// It returns false if it refused a file. The last valid version of that file may be used instead and has not been
// counted yet, so the caller must call limitDocuments again.
func (o *ownedLoad) limitDocuments() bool {
	files, size, count, cost := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	for _, d := range o.docs {
		size[d.Namespace()] += len(o.texts[d.SHA256()])
		count[d.Namespace()] += d.RuleCount()
	}
	maxSize := fairShare(size, rules.MaxOwnedBytes, maxOwnedBytes)
	share := fairShare(count, rules.MaxOwnedRules, maxOwnedRules)
	clear(size)
	clear(count)
	refused := false
	refuse := func(d *rules.Document, why string) {
		refused = true
		o.refuseDocument(d, limitProblem(o.file(d), why))
	}
	for _, d := range slices.Clone(o.docs) {
		n := d.Namespace()
		sizeOf, rulesOf, costOf := size[n]+len(o.texts[d.SHA256()]), count[n]+d.RuleCount(), cost[n]+int(d.MaxLineTime())
		switch {
		case sizeOf > maxSize || files[n] >= rules.MaxOwnedFiles:
			refuse(d, sizeProblem(n, maxSize))
		case rulesOf > share:
			refuse(d, fmt.Sprintf("with this file, the packs of namespace %s have more than %d rules", n, share))
		case costOf > int(rules.MaxOwnedLineTime):
			refuse(d, fmt.Sprintf("with this file, the regular expressions of namespace %s may take more than %s for one line of 16 KiB", n, rules.MaxOwnedLineTime))
		default:
			size[n], count[n], cost[n] = sizeOf, rulesOf, costOf
			files[n]++
		}
	}
	return !refused
}

func sizeProblem(namespace string, maxSize int) string {
	return fmt.Sprintf("with this file, the packs of namespace %s have more than %d KiB or %d files", namespace, maxSize>>10, rules.MaxOwnedFiles)
}

// fairShare returns the largest share, at most limit, with which the namespaces together stay within total.
func fairShare(used map[string]int, limit, total int) int {
	for share := limit; ; share = share * 7 / 8 {
		sum := 0
		for _, n := range used {
			sum += min(n, share)
		}
		if sum <= total || share == 0 {
			return share
		}
	}
}

func limitProblem(f rules.File, message string) string {
	p := rules.Problem{File: f.Name, Line: 1, Column: 1, Check: "owner-limit", Message: message, Fix: "load fewer or smaller packs"}
	return rules.Problems{p}.Error()
}

func (o *ownedLoad) file(d *rules.Document) rules.File {
	i := slices.IndexFunc(o.owned, func(f rules.File) bool { return f.Name == d.File() })
	return o.owned[i]
}

// refuse lists a file as broken, and adds its last valid version if that is a different version.
func (o *ownedLoad) refuse(f rules.File, sha, why string) {
	old := o.good[f.Name]
	if o.broken[f.Name] == nil {
		pack := strings.TrimPrefix(f.Name, rules.OwnedPrefix)
		if old.pack != "" {
			pack = old.pack
		}
		o.broken[f.Name] = &web.BrokenPack{Pack: pack, Error: why, File: f.Name, Namespace: f.Namespace}
	}
	if old.text == nil || old.sha == sha || old.namespace != f.Namespace {
		return
	}
	last := f
	last.Data = old.text
	if d, problems := rules.Parse(last); len(problems.Errors()) == 0 {
		o.docs = slices.Insert(o.docs, 0, d) // like other active versions, it comes before new files
		o.texts[d.SHA256()] = old.text
	}
}

// refuseVersion refuses a file for a reason that depends only on its content, so that this version is not tried again.
func (o *ownedLoad) refuseVersion(f rules.File, sha, why string) {
	o.refused[f.Name] = refusal{sha, why}
	o.refuse(f, sha, why)
}

func (o *ownedLoad) refuseDocument(d *rules.Document, why string) {
	o.docs = slices.DeleteFunc(o.docs, func(x *rules.Document) bool { return x == d })
	o.refuse(o.file(d), d.SHA256(), why)
}

// refuseFaulty refuses the documents that have the problems. It returns false if there is no document to refuse. The
// problem that a name is in use counts only if there are no other problems, because the other document with that name
// may have one.
func (o *ownedLoad) refuseFaulty(problems rules.Problems) bool {
	isTaken := func(p rules.Problem) bool { return p.Check == "duplicate-alert" }
	if others := slices.DeleteFunc(slices.Clone(problems), isTaken); len(others) > 0 {
		problems = others
	}
	faulty := map[string]rules.Problems{}
	for _, p := range problems {
		faulty[p.File] = append(faulty[p.File], p)
	}
	refused := false
	for _, d := range slices.Clone(o.docs) {
		if own := faulty[d.File()]; own != nil {
			refused = true
			o.refuseDocument(d, own.Error())
		}
	}
	if !refused && len(o.docs) > 0 {
		refused = true
		o.refuseDocument(o.docs[len(o.docs)-1], problems.Error())
	}
	return refused
}
