// Package matcher finds the lines that match rules.
//
// Its only state is in streams. A Program is immutable. A Stream holds the labels of one log
// stream, the rules that may apply to it, its format and its incomplete lines. The package
// knows rules and log formats. It does not know what a match means, because that is the task of
// package episodes.
package matcher

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"crowsnest/internal/literals"
	"crowsnest/rules"
)

// Program is a compiled set of rules. It is safe for concurrent use. It is immutable except for
// the costs and the quarantine of its rules, and for the selections, which are built when a
// stream first needs them.
type Program struct {
	rules  []*rules.Rule
	meters []meter // meter of each rule
	parts  []*part // parts of all rules, in the order of the rules; for each rule clear, unless, steps
	sample *sample
	clock  func() time.Duration // nil if costs are not measured

	froms      []rules.Selector // distinct selectors of the parts
	namespaces *rules.Namespaces
	// trusted are the namespaces whose lines infrastructure rules accept, for a program that
	// reads every namespace; otherwise nil.
	trusted *rules.Namespaces

	mu         sync.Mutex
	selections map[string]*lazySelection
	served     []served // streams that were used with the program; a ring once it is full
	nextServed int
	learners   atomic.Int32 // number of finders that keep lines
	untuned    atomic.Int32 // number of finders that have enough lines for Tune

	scratches sync.Pool // *scratch values
	made      atomic.Uint64
}

// part is one matcher of a rule in its role.
type part struct {
	rule      *rules.Rule
	index     int // index of the rule
	from      int // index of its selector
	role      Part
	condition *rules.Matcher
	cond      *cond
	conds     int // number of conditions in cond
	// branches are those of all `any` in cond.
	branches []branch
	// fields are the names of the fields that cond uses.
	fields []string
	texts  literals.Choice
	// decided is set if a line fulfils the condition as soon as it contains one of the chosen
	// texts.
	decided bool
	meter   *meter // meter of the rule
}

// Compile compiles all rules that are not off. The program does not measure the cost of rules.
func Compile(set *rules.Set) (*Program, error) { return compileFor(set, ordinary()) }

// CompileOpen is Compile for a program whose rules read every namespace. The caller checks each
// hit with Set.Trusts. If all hits of a line are of rules that do not trust its namespace, the
// line is searched for a problem like a line without a hit.
func CompileOpen(set *rules.Set) (*Program, error) {
	open := *set
	open.Namespaces = nil
	p, err := Compile(&open)
	if err == nil {
		p.trusted = set.Namespaces
	}
	return p, err
}

// CompileTimed is Compile for a program that measures the cost of each rule. stopwatch returns
// the time since some fixed moment. It must never decrease, and must be safe for concurrent
// use.
func CompileTimed(set *rules.Set, stopwatch func() time.Duration) (*Program, error) {
	p, err := Compile(set)
	if err == nil {
		p.clock = stopwatch
	}
	return p, err
}

func compileFor(set *rules.Set, sample *sample) (*Program, error) {
	if set == nil {
		return nil, errors.New("compile rules: there is no rule set")
	}
	p := &Program{sample: sample, namespaces: set.Namespaces, selections: map[string]*lazySelection{}}
	p.scratches.New = func() any {
		// Each scratch has its own sequence of random numbers, also one that replaces a
		// collected one.
		return &scratch{dice: p.made.Add(0x9E3779B97F4A7C15)}
	}
	known := map[string]int{}
	for _, r := range set.Rules {
		if r.Mode == rules.ModeOff {
			continue
		}
		parts, err := compileRule(r, sample)
		if err != nil {
			return nil, err
		}
		for _, pt := range parts {
			pt.index, pt.from = len(p.rules), p.selectorOf(pt, known)
		}
		p.rules = append(p.rules, r)
		p.parts = append(p.parts, parts...)
	}
	p.meters = make([]meter, len(p.rules))
	for _, pt := range p.parts {
		pt.meter = &p.meters[pt.index]
	}
	return p, nil
}

func (p *Program) selectorOf(pt *part, known map[string]int) int {
	from := pt.role.SelectorOf(pt.rule)
	text := from.String()
	i, ok := known[text]
	if !ok {
		i = len(p.froms)
		known[text] = i
		p.froms = append(p.froms, from)
	}
	return i
}

// compileRule returns the parts of a rule, in the order of their hits.
func compileRule(r *rules.Rule, sample *sample) (parts []*part, err error) {
	defer func() {
		if p := recover(); p != nil {
			parts, err = nil, fmt.Errorf("compile rule %s: a defect of crowsnest: %v", r.Alert, p)
		}
	}()
	if len(r.Steps) == 0 {
		return nil, fmt.Errorf("compile rule %s: it has neither match nor sequence", r.Alert)
	}
	for role, m := range ruleMatchers(r) {
		cc := condCompiler{names: r.CapturedNames}
		c := cc.compile(m, role.defaultIn(), false)
		pt := &part{rule: r, role: role, condition: m, cond: c, conds: cc.conds, branches: cc.branches, fields: cc.fields, texts: sample.chooseRarest(m.Required())}
		if texts := c.sufficientTexts(); texts != nil {
			pt.decided = slices.Equal(pt.texts.Texts, texts)
		}
		parts = append(parts, pt)
	}
	return parts, nil
}

// ruleMatchers yields the matchers of a rule in the order of their hits.
func ruleMatchers(r *rules.Rule) iter.Seq2[Part, *rules.Matcher] {
	return func(yield func(Part, *rules.Matcher) bool) {
		if r.Clear != nil && !yield(PartClear, &r.Clear.Matcher) || r.Unless != nil && !yield(PartUnless, &r.Unless.Matcher) {
			return
		}
		for i := range r.Steps {
			if !yield(Part(i), &r.Steps[i].Matcher) {
				return
			}
		}
	}
}

// Rules returns the rules whose `match` or steps read the stream, in their order. The slice is
// shared and must not be changed.
func (p *Program) Rules(s *Stream) []*rules.Rule {
	s.chooseRules(p)
	return s.sel.rules
}

// TextInfo describes how the prefilter finds the lines of one part of a rule.
type TextInfo struct {
	Part Part
	// From selects the streams of the part.
	From rules.Selector
	// Texts are the required literals. Every line that the part matches contains one of them.
	// The prefilter searches for all of them at once, which costs very little.
	Texts []literals.Text
	// Escaped is set if the texts belong to fields. A JSON line may write letters of such a
	// text as escapes, so a line that contains `\u00` may hold the text too.
	Escaped bool
	// EveryLine is set if there is no text to search for, so that the part is tried on every
	// line of its streams.
	EveryLine bool
}

// Texts returns how the lines of a rule are found, for each part in the order of their hits.
// Parts with short texts, or without texts, make reading slower.
func Texts(r *rules.Rule) []TextInfo {
	parts, err := compileRule(r, ordinary())
	if err != nil {
		return nil // the part has no matchers
	}
	var out []TextInfo
	for _, p := range parts {
		out = append(out, TextInfo{Part: p.role, From: p.role.SelectorOf(r), EveryLine: len(p.texts.Texts) == 0, Escaped: p.texts.Escapable, Texts: p.texts.Texts})
	}
	return out
}
