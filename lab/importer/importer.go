// Package importer translates CREs, which are the rules of preq, into rule packs. The translation of a rule has the
// same meaning as the CRE. If that is impossible, the rule is refused with the reason. The package does not read files
// or run rules; the caller checks and tests the packs.
package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"crowsnest/internal/strictyaml"
	"crowsnest/internal/yamltext"
	"crowsnest/redact"
	"crowsnest/rules"
	"crowsnest/rules/selector"
)

// Limits of an import.
const (
	// MaxFileBytes is the maximum size of a file of rules. A larger file is refused.
	MaxFileBytes = 4 << 20
	// MaxSampleBytes is the maximum number of bytes that are read from a sample log.
	MaxSampleBytes = 2 << 20
	// MaxRules is the maximum number of rules in one import. It is also the maximum number of rules that can be loaded.
	MaxRules = 5000
)

// File is one file to import.
type File struct {
	Name string // name for messages
	Data []byte
	// Sample is a log whose lines the rules match. Tests of the rules are generated from it. It may be nil.
	Sample []byte
	// Found says that the file was found in a folder. Files without rules are usual there, so they are no error.
	Found bool
}

// Options configures an import.
type Options struct {
	// Pack is the name of the pack. Further packs have this name with a number appended.
	Pack string
	// From is a selector that replaces the selectors derived from the rules. If it is "", the derived selectors are
	// used.
	From string
	// Strict refuses rules that would otherwise be converted with a warning.
	Strict bool
	// Try checks and tests a generated pack. If it is nil, packs are not checked.
	Try func(pack []byte) (Trial, error)
}

// Trial is the result of checking and testing a pack.
type Trial struct {
	Failed map[string]string   // reason why a rule cannot be used; the key is the alert name
	Warned map[string][]string // warnings about a rule; the key is the alert name
}

// Status is the result of importing a rule.
type Status string

// Values of Status.
const (
	Converted Status = "converted"
	Warned    Status = "warning" // the rule was converted, with a warning
	Refused   Status = "refused"
	Skipped   Status = "skipped" // the file was found in a folder and contains no rules
)

// Outcome is the result of importing one rule, or of reading a file that cannot be imported.
type Outcome struct {
	File    string   `json:"file"`
	Line    int      `json:"line"` // line number, from 1; zero means the whole file
	Column  int      `json:"column"`
	ID      string   `json:"id"`    // id of the CRE
	Title   string   `json:"title"` // title of the CRE
	Alert   string   `json:"alert"` // name in the pack; "" if the rule was refused
	Status  Status   `json:"status"`
	Reasons []string `json:"reasons"` // reasons why the rule was refused, or remarks that a person should check
	Tests   int      `json:"tests"`   // number of inline tests from the sample log

	rule *rule
}

// Result is the result of an import.
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

// Count returns the number of outcomes with a status.
func (r Result) Count(s Status) int {
	n := 0
	for i := range r.Outcomes {
		if r.Outcomes[i].Status == s {
			n++
		}
	}
	return n
}

// Import translates files of CREs into packs. Rules that cannot be translated are listed as outcomes. An
// error means that an option is wrong or that there are too many rules.
func Import(files []File, opt Options) (Result, error) {
	im := &importer{opt: opt, redactor: redact.New(nil), names: map[string]bool{}}
	if opt.From != "" {
		if _, err := selector.Parse(opt.From); err != nil {
			return Result{}, fmt.Errorf("the selector %s is not valid: %w", opt.From, err)
		}
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

// importer is the state of one import.
type importer struct {
	opt      Options
	redactor *redact.Redactor
	names    map[string]bool // names of alerts that are already used
	sampled  int             // number of bytes of sample logs that were searched
	out      []*Outcome
}

// refuseAt returns an error with the reason why a rule cannot be translated, and the position.
func refuseAt(at strictyaml.Pos, format string, args ...any) error {
	return fmt.Errorf("line %d, column %d: %s", at.Line, at.Column, fmt.Sprintf(format, args...))
}

// add records a translated rule or, if err is not nil, the error that prevented the translation.
func (im *importer) add(c *creRule, r *rule, err error) {
	o := &Outcome{
		File: c.at.File(), Line: c.at.Line, Column: c.at.Column,
		ID: redact.Sanitise(c.id), Title: redact.Sanitise(strings.TrimSpace(c.title)), Status: Refused, Reasons: []string{},
	}
	im.out = append(im.out, o)
	switch {
	case err != nil:
		o.Reasons = append(o.Reasons, redact.Sanitise(err.Error()))
	case im.opt.Strict && len(r.warnings) > 0:
		o.Reasons = append(o.Reasons, r.warnings...)
	default:
		o.rule, o.Status = r, Converted
	}
}

// refuseFile records the problems of a file without usable rules.
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

// maxProblems is the maximum number of listed problems per file.
const maxProblems = 10

// skip records a file without rules. If the file was not found in a folder, it is recorded as refused.
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

// blame returns the first problem between two positions of a file. A zero start is the start of
// the file, and a zero end is its end.
func blame(ps strictyaml.Problems, start, end strictyaml.Pos) error {
	before := func(p strictyaml.Problem, pos strictyaml.Pos) bool {
		return p.Line < pos.Line || p.Line == pos.Line && p.Column < pos.Column
	}
	for _, p := range ps.Errors() {
		if !before(p, start) && (end.IsZero() || before(p, end)) {
			return fmt.Errorf("line %d, column %d: %s", p.Line, p.Column, problemText(p))
		}
	}
	return nil
}

// maxTrials is the maximum number of times that a pack is checked and tested. Each trial can find invalid rules that
// the previous trial did not check, because other rules were invalid.
const maxTrials = 6

// try checks and tests the rules, and removes the rules that fail.
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

// judge removes the rules that failed, and reports whether there were any. If a rule fails only with its sample log, it
// is also removed. Such a log may end in the middle of the failure, but the translation may also be wrong.
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

// outcomes returns the outcomes, with the final names of the alerts.
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

// packs distributes the translated rules over as few packs as the maximum size of a pack allows.
func (im *importer) packs() []Pack {
	var texts []string
	var tests []int
	for _, o := range im.out {
		if o.rule != nil {
			texts = append(texts, o.rule.asListItem())
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

// maxPackBytes is the maximum size of the rules in a pack; the rest is for the header.
const maxPackBytes = rules.MaxFileBytes * 9 / 10

func packText(name string, texts []string, tests []int) string {
	head := fmt.Sprintf("pack: {name: %s, version: 0.1.0, rules: %d", yamltext.Quote(name), len(texts))
	sum := 0
	for _, n := range tests {
		sum += n
	}
	if sum > 0 {
		head += fmt.Sprintf(", tests: %d", sum)
	}
	return head + "}\nrules:\n" + strings.Join(texts, "")
}
