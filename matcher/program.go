// Package matcher finds the lines that match rules.
//
// Its only state is in streams. A Program is immutable. A Stream holds the labels of one log stream, the rules that may
// apply to it, its format and its incomplete lines. The package knows rules and log formats. It does not know what a
// match means, because that is the task of package episodes.
//
// The comments of the package use these terms:
//
//   - A part is `match`, `clear`, `unless` or a step of a rule. A hit is a line that a part matches.
//   - An envelope is the text that a container runtime writes around a line. A logical line may consist of several
//     physical lines.
//   - A record is a klog block or a Go panic, whose lines are matched together.
//   - A voice is who speaks in a section of a line: the program itself, or somebody whom it quotes; see lines.Voice.
//   - A selection is the set of parts that may apply to a stream. Its sieve finds the parts to try on a line by literal
//     texts that the parts require.
//   - A complaint is a line that may report a problem and that no rule matches.
//   - The place of a line is its offset in its log.
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
	meters []meter // one meter for each rule
	parts  []*part // parts of all rules, in the order of the rules; within a rule in the order clear, unless, steps
	sample *sample
	clock  func() time.Duration // stopwatch for costs; nil if costs are not measured

	selectors  []rules.Selector // distinct selectors of the parts
	namespaces *rules.Namespaces
	// trusted are the namespaces whose lines infrastructure rules accept. It is set only for a program of CompileOpen,
	// and otherwise nil.
	trusted *rules.Namespaces

	mu         sync.Mutex
	selections map[string]*lazySelection
	served     []served // streams that were used with the program; a ring buffer once it is full
	nextServed int
	learners   atomic.Int32 // number of finders that keep lines for Tune
	untuned    atomic.Int32 // number of finders that have enough lines for Tune

	scratches sync.Pool // *scratch values
	made      atomic.Uint64
}

// part is one matcher of a rule with its role, such as `match` or `clear`.
type part struct {
	rule      *rules.Rule
	index     int // index of the rule in the program
	from      int // index of the part's selector in Program.selectors
	role      Part
	condition *rules.Matcher
	cond      *cond
	conds     int // number of conditions in cond, including nested ones
	// branches are the branches of every `any` in cond.
	branches []branch
	// fields are the names of the fields that cond uses.
	fields []string
	texts  literals.Choice
	// decided is set if every line that contains one of the chosen texts satisfies the condition.
	decided bool
	meter   *meter
}

// Compile compiles all rules that are not off. The program does not measure the cost of rules.
func Compile(set *rules.Set) (*Program, error) { return compileFor(set, ordinary()) }

// CompileOpen is like Compile, but the rules read the lines of every namespace. The caller checks each hit with
// Set.Trusts. A line with hits only of rules that do not trust its namespace is searched for a complaint, like a line
// without a hit.
func CompileOpen(set *rules.Set) (*Program, error) {
	open := *set
	open.Namespaces = nil
	p, err := Compile(&open)
	if err == nil {
		p.trusted = set.Namespaces
	}
	return p, err
}

// CompileTimed is like Compile, but the program measures the cost of each rule. stopwatch returns the time since some
// fixed moment. It must never decrease, and must be safe for concurrent use.
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
		// Each scratch has its own sequence of random numbers. A scratch that replaces a garbage collected one also
		// gets a new sequence.
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
		i = len(p.selectors)
		known[text] = i
		p.selectors = append(p.selectors, from)
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

// Rules returns the rules whose `match` or steps read the stream, in the order of the rule set. The slice is shared and
// must not be changed.
func (p *Program) Rules(s *Stream) []*rules.Rule {
	s.chooseRules(p)
	return s.sel.rules
}

// TextInfo describes how the prefilter finds the lines of one part of a rule.
type TextInfo struct {
	Part Part
	// From selects the streams of the part.
	From rules.Selector
	// Texts are the required literals. Every line that the part matches contains one of them. The prefilter searches
	// for the texts of all rules at once, which costs very little.
	Texts []literals.Text
	// Escaped is set if the texts are values of fields. A JSON line may write the letters of such a text as escapes.
	// Therefore a line that contains `\u00` may also match.
	Escaped bool
	// EveryLine is set if there is no text to search for, so that the part has to be tried on every line of its
	// streams.
	EveryLine bool
}

// Texts describes how the prefilter finds the lines of a rule, with one entry for each part, in the order of their
// hits. Parts with short texts, or without texts, slow down scans.
func Texts(r *rules.Rule) []TextInfo {
	parts, err := compileRule(r, ordinary())
	if err != nil {
		return nil // the part has no matchers, so it has no lines
	}
	var out []TextInfo
	for _, p := range parts {
		out = append(out, TextInfo{Part: p.role, From: p.role.SelectorOf(r), EveryLine: len(p.texts.Texts) == 0, Escaped: p.texts.Escapable, Texts: p.texts.Texts})
	}
	return out
}
