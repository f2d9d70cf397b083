package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"crowsnest/redact"
	"crowsnest/rules"
	"crowsnest/rules/selector"
	"crowsnest/strictyaml"
)

// Limits of an import.
const (
	// MaxFileBytes bounds a file of rules. A larger one is refused.
	MaxFileBytes = 4 << 20
	// MaxSampleBytes bounds what is read of a sample log.
	MaxSampleBytes = 2 << 20
	// MaxRules bounds the rules of one import, as the rules that can be loaded.
	MaxRules = 5000
)

// File is one file to import.
type File struct {
	Name string // name that messages mention
	Data []byte
	// Sample is a log that the rules of the file find, for their tests; nil if there is none.
	Sample []byte
	// Found means that the file was found in a folder, where files without rules are usual.
	Found bool
}

// Options configure an import.
type Options struct {
	// Pack is the name of the pack; further packs have a number appended.
	Pack string
	// From replaces the selectors that are derived from the rules; empty: it does not. It must be a
	// valid selector.
	From string
	// Strict refuses rules that would be converted with a warning.
	Strict bool
	// Try checks and tests a pack as it was written. It returns, by the name of the alert, why a
	// rule cannot be used, and what there is to warn about. Nil: no pack is tried.
	Try func(pack []byte) (Trial, error)
}

// Trial is what checks and tests say about the rules of a pack.
type Trial struct {
	Failed map[string]string   // reason why each alert's rule cannot be used
	Warned map[string][]string // warnings by alert
}

// Status is what became of a rule.
type Status string

// The outcomes of a rule or a file.
const (
	Converted Status = "converted"
	Warned    Status = "warning" // converted, with a warning
	Refused   Status = "refused"
	Skipped   Status = "skipped" // the file of a folder has no rules
)

// Outcome is what became of one rule, or of a file that cannot be read.
type Outcome struct {
	File    string   `json:"file"`
	Line    int      `json:"line"` // from 1; zero means the whole file
	Column  int      `json:"column"`
	ID      string   `json:"id"`    // the id of the CRE
	Title   string   `json:"title"` // the same for people
	Alert   string   `json:"alert"` // the name in the pack, empty if it was refused
	Status  Status   `json:"status"`
	Reasons []string `json:"reasons"` // why it was refused, or what to check
	Tests   int      `json:"tests"`   // inline tests from the sample log

	rule *rule
}

// Result is the outcome of an import.
type Result struct {
	Outcomes []Outcome // outcomes in the order of the files
	Packs    []Pack
}

// Pack is one generated pack. Its text is smaller than rules.MaxFileBytes.
type Pack struct {
	Name  string
	Data  []byte
	Rules int
}

// Count returns how many outcomes have the status.
func (r Result) Count(s Status) int {
	n := 0
	for i := range r.Outcomes {
		if r.Outcomes[i].Status == s {
			n++
		}
	}
	return n
}

// Import translates files of CREs into packs. An error means that nothing was imported: an
// option is wrong, or there are too many rules. Rules that cannot be translated are outcomes.
func Import(files []File, opt Options) (Result, error) {
	im := &importer{opt: opt, redactor: redact.New(nil), names: map[string]bool{}}
	if opt.From != "" {
		from, err := selector.Parse(opt.From)
		if err != nil {
			return Result{}, fmt.Errorf("the selector %s is not valid: %w", opt.From, err)
		}
		im.from = from
	}
	for _, f := range files {
		im.readCRE(f)
		if len(im.out) > MaxRules {
			return Result{}, fmt.Errorf("the files have more than %d rules up to %s: import fewer of them at once", MaxRules, f.Name)
		}
	}
	if err := im.try(); err != nil {
		return Result{}, err
	}
	return Result{Outcomes: im.outcomes(), Packs: im.packs()}, nil
}

// importer collects the outcomes of one import.
type importer struct {
	opt      Options
	from     rules.Selector
	redactor *redact.Redactor
	names    map[string]bool // names of alerts that are in use
	sampled  int             // bytes of sample logs that were searched
	out      []*Outcome
}

// refusal is why a rule cannot be translated.
type refusal struct{ reason string }

func (r *refusal) Error() string { return r.reason }

func refusef(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// source identifies a rule in its file.
type source struct {
	at    strictyaml.Pos
	id    string
	title string
}

// add records a translated rule, or why there is none.
func (im *importer) add(s source, r *rule, err error) {
	o := &Outcome{
		File: s.at.File(), Line: s.at.Line, Column: s.at.Column,
		ID: redact.Sanitise(s.id), Title: redact.Sanitise(s.title), Status: Refused, Reasons: []string{},
	}
	im.out = append(im.out, o)
	if err == nil && r.tooLarge() {
		err = refusef("its conditions have alternatives that multiply to more than %d", maxLeaves)
	}
	switch {
	case err != nil:
		o.Reasons = append(o.Reasons, redact.Sanitise(err.Error()))
	case im.opt.Strict && len(r.warnings) > 0:
		o.Reasons = append(o.Reasons, r.warnings...)
	default:
		o.rule, o.Status = r, Converted
	}
}

// refuseFile records the problems of a file that has no usable rules.
func (im *importer) refuseFile(f File, ps strictyaml.Problems) {
	errs := ps.Errors()
	for i, p := range errs[:min(len(errs), maxProblems)] {
		o := &Outcome{File: f.Name, Line: p.Line, Column: p.Column, Status: Refused, Reasons: []string{problemText(p)}}
		if i == maxProblems-1 && len(errs) > maxProblems {
			o.Reasons = append(o.Reasons, fmt.Sprintf("%d more problems", len(errs)-maxProblems))
		}
		im.out = append(im.out, o)
	}
}

// maxProblems bounds the problems of a file that are listed.
const maxProblems = 10

// skip records a file without rules: refused, unless it is one of many in a folder.
func (im *importer) skip(f File, line int, reason string) {
	status := Refused
	if f.Found {
		status = Skipped
	}
	im.out = append(im.out, &Outcome{File: f.Name, Line: line, Status: status, Reasons: []string{reason}})
}

func problemText(p strictyaml.Problem) string {
	if p.Fix == "" {
		return redact.Sanitise(p.Message)
	}
	return redact.Sanitise(p.Message + "; " + p.Fix)
}

// blame returns the first problem of a part of a file. The zero start is that of the file, and the
// zero end its end.
func blame(ps strictyaml.Problems, start, end strictyaml.Pos) error {
	before := func(p strictyaml.Problem, at strictyaml.Pos) bool {
		return p.Line < at.Line || p.Line == at.Line && p.Column < at.Column
	}
	for _, p := range ps.Errors() {
		if !before(p, start) && (end.IsZero() || before(p, end)) {
			return refusef("line %d, column %d: %s", p.Line, p.Column, problemText(p))
		}
	}
	return nil
}

// maxTrials bounds how often packs are tried. Each trial removes rules that the one before it
// could not reach because others were broken.
const maxTrials = 6

// try removes the rules that fail their check or tests.
func (im *importer) try() error {
	if im.opt.Try == nil {
		return nil
	}
	for range maxTrials {
		failed := false
		for _, p := range im.packs() {
			trial, err := im.opt.Try(p.Data)
			if err != nil {
				return fmt.Errorf("the generated pack cannot be tried: %w", err)
			}
			failed = im.judge(trial) || failed
		}
		if !failed {
			return nil
		}
	}
	return fmt.Errorf("the generated rules still fail their check after %d rounds: please report this", maxTrials)
}

// judge takes out the rules that failed, and reports whether there were any. A rule that fails
// only with its sample log, which may end in the middle of the failure, is refused too: its
// meaning was not kept.
func (im *importer) judge(t Trial) (failed bool) {
	for _, o := range im.out {
		if o.rule == nil {
			continue
		}
		reason, bad := t.Failed[o.rule.alert]
		for _, w := range t.Warned[o.rule.alert] {
			if !slices.Contains(o.rule.warnings, w) {
				o.rule.warn("%s", w)
			}
		}
		if bad || im.opt.Strict && len(o.rule.warnings) > 0 {
			failed = true
			o.Status, o.Reasons = Refused, slices.DeleteFunc([]string{cmp.Or(o.rule.ifFails, reason)}, func(s string) bool { return !bad || s == "" })
			o.Reasons = append(o.Reasons, o.rule.warnings...)
			o.rule = nil
		}
	}
	return failed
}

// outcomes returns the outcomes with the names of the alerts.
func (im *importer) outcomes() []Outcome {
	out := make([]Outcome, len(im.out))
	for i, o := range im.out {
		if r := o.rule; r != nil {
			o.Alert, o.Tests, o.Reasons = r.alert, len(r.tests), append(o.Reasons, r.warnings...)
			if len(r.warnings) > 0 {
				o.Status = Warned
			}
		}
		out[i] = *o
	}
	return out
}

// packs returns the translated rules as packs, as few as their size allows.
func (im *importer) packs() []Pack {
	var texts []string
	var tests []int
	for _, o := range im.out {
		if o.rule != nil {
			texts = append(texts, o.rule.text())
			tests = append(tests, len(o.rule.tests))
		}
	}
	var out []Pack
	for len(texts) > 0 {
		n, size := 0, 0
		for n < len(texts) && (n == 0 || size+len(texts[n]) < maxPackBytes) {
			size += len(texts[n])
			n++
		}
		name := im.opt.Pack
		if len(out) > 0 {
			name = fmt.Sprintf("%s-%d", name, len(out)+1)
		}
		out = append(out, Pack{Name: name, Data: []byte(packText(name, texts[:n], tests[:n])), Rules: n})
		texts, tests = texts[n:], tests[n:]
	}
	return out
}

// maxPackBytes leaves room for the header of a pack.
const maxPackBytes = rules.MaxFileBytes * 9 / 10

func packText(name string, texts []string, tests []int) string {
	head := fmt.Sprintf("pack: {name: %s, version: 0.1.0, rules: %d", quote(name), len(texts))
	sum := 0
	for _, n := range tests {
		sum += n
	}
	if sum > 0 {
		head += fmt.Sprintf(", tests: %d", sum)
	}
	return head + "}\nrules:\n" + strings.Join(texts, "")
}
