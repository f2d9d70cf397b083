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

// Program is a compiled set of rules. It is immutable except for the costs of its rules
// and their quarantine; the selection of a combination of parts is built when a stream
// first needs it. It is safe for concurrent use.
type Program struct {
	rules  []*rules.Rule
	meters []meter // meter of each rule
	parts  []*part // parts of all rules, in their order; within a rule clear, unless, steps
	sample *sample
	clock  func() time.Duration // nil if nothing is measured

	froms      []rules.Selector // distinct selectors of the parts
	namespaces *rules.Namespaces
	// doubts are the namespaces that infrastructure rules trust, of a program that reads
	// every namespace; otherwise nil.
	doubts *rules.Namespaces

	mu         sync.Mutex
	selections map[string]*lazySelection
	served     []served // streams, a ring once it is full
	nextServed int
	learners   atomic.Int32 // finders that keep lines
	untuned    atomic.Int32 // those that have what Tune needs

	scratches sync.Pool // pool of *scratch
	made      atomic.Uint64
}

// part is one matcher of a rule, in its role.
type part struct {
	rule  *rules.Rule
	index int // index of the rule
	from  int // index of its selector
	role  Part
	cond  *cond
	conds int // number of conditions in cond
	// branches are those of all `any` in cond.
	branches []branch
	// fields are the names of the fields that cond looks at.
	fields []string
	texts  literals.Choice
	// decided is set if a line that contains a text of the choice fulfils the
	// condition.
	decided bool
	meter   *meter // meter of the rule
}

// Compile makes a program of all rules that are not off. It does not measure the cost
// of rules. It does no I/O.
func Compile(set *rules.Set) (*Program, error) { return compileFor(set, ordinary()) }

// CompileOpen does the same, but every rule reads every namespace. The caller asks
// Set.Trusts of each hit. A line with only hits of rules that do not trust its namespace
// may be a complaint.
func CompileOpen(set *rules.Set) (*Program, error) {
	open := *set
	open.Namespaces = nil
	p, err := Compile(&open)
	if err == nil {
		p.doubts = set.Namespaces
	}
	return p, err
}

// CompileTimed is Compile for a program that measures the cost of each rule. stopwatch
// returns the time since some fixed moment; it must never decrease and must be safe for
// concurrent use.
func CompileTimed(set *rules.Set, stopwatch func() time.Duration) (*Program, error) {
	p, err := Compile(set)
	if err == nil {
		p.clock = stopwatch
	}
	return p, err
}

// compileFor compiles for lines like those of a sample.
func compileFor(set *rules.Set, sample *sample) (*Program, error) {
	if set == nil {
		return nil, errors.New("compile rules: there is no rule set")
	}
	p := &Program{sample: sample, namespaces: set.Namespaces, selections: map[string]*lazySelection{}}
	p.scratches.New = func() any {
		// Each has a sequence of its own, also those that replace one that was
		// collected as garbage.
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

// selectorOf returns the index of the selector of a part, which it adds if it is not known.
func (p *Program) selectorOf(pt *part, known map[string]int) int {
	from := pt.role.From(pt.rule)
	text := from.String()
	i, ok := known[text]
	if !ok {
		i = len(p.froms)
		known[text] = i
		p.froms = append(p.froms, from)
	}
	return i
}

// compileRule returns the parts of a rule in the order of their hits.
func compileRule(r *rules.Rule, sample *sample) (parts []*part, err error) {
	defer func() {
		if p := recover(); p != nil {
			parts, err = nil, fmt.Errorf("compile rule %s: a defect of crowsnest: %v", r.Alert, p)
		}
	}()
	if len(r.Steps) == 0 {
		return nil, fmt.Errorf("compile rule %s: it has neither match nor sequence", r.Alert)
	}
	for role, m := range matchersOf(r) {
		cc := condCompiler{names: r.CapturedNames}
		c := cc.compile(m, role.defaultIn(), false)
		pt := &part{rule: r, role: role, cond: c, conds: cc.conds, branches: cc.branches, fields: cc.fields, texts: sample.choose(m.Required())}
		if texts := c.anyOf(); texts != nil {
			pt.decided = slices.Equal(pt.texts.Texts, texts)
		}
		parts = append(parts, pt)
	}
	return parts, nil
}

// matchersOf yields the matchers of a rule in the order of their hits.
func matchersOf(r *rules.Rule) iter.Seq2[Part, *rules.Matcher] {
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

// required returns the condition that every line fulfils that the part matches.
func (pt *part) required() *literals.Cond {
	for role, m := range matchersOf(pt.rule) {
		if role == pt.role {
			return m.Required()
		}
	}
	return nil
}

// Rules returns the rules whose `match` or steps read the stream, in their order. The
// slice is shared and must not be changed.
func (p *Program) Rules(s *Stream) []*rules.Rule {
	s.choose(p)
	return s.sel.rules
}
