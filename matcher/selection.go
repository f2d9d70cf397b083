package matcher

import (
	"sync"
	"sync/atomic"
	"time"

	"crowsnest/internal/literals"
	"crowsnest/rules"
)

// maxSelections bounds how many combinations of parts a program remembers.
// Streams keep those that they use.
const maxSelections = 1024

// selection is prepared for all streams to which the same parts of rules may apply. It is
// immutable except for its finder.
type selection struct {
	rules []*rules.Rule // with a step among the parts
	parts []*part

	finder finder
	users  [][]int32 // of each text of the finder, the parts that it is chosen for
	always []int32   // parts that are tried on every line
	// escaped parts are found by letters of fields. JSON can escape those.
	escaped []int32
	// fields are the names of the fields that conditions look at.
	fields map[string]bool

	clock func() time.Duration // of the program
}

type lazySelection struct {
	once sync.Once
	made atomic.Pointer[selection]
}

// choose selects the rules for the stream, once for each program.
func (s *Stream) choose(p *Program) {
	if s.prog != p {
		s.prog, s.sel = p, p.selection(s.labels, s.opt)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.noteServed(s.labels, s.opt)
	}
}

func (p *Program) selection(labels Labels, opt StreamOptions) *selection {
	chosen := make([]bool, len(p.parts))
	key := make([]byte, (len(p.parts)+7)/8)
	wanted := make([]bool, len(p.froms))
	for i, from := range p.froms {
		wanted[i] = opt.Lenient && from.MayMatch(labels) || from.Matches(labels, false)
	}
	trusted := p.trusts(labels, opt)
	for i, pt := range p.parts {
		if wanted[pt.from] && (trusted || !pt.rule.Infrastructure) {
			chosen[i] = true
			key[i/8] |= 1 << (i % 8)
		}
	}
	p.mu.Lock()
	lazy := p.selections[string(key)]
	if lazy == nil {
		if len(p.selections) >= maxSelections {
			clear(p.selections)
		}
		lazy = &lazySelection{}
		p.selections[string(key)] = lazy
	}
	p.mu.Unlock()
	lazy.once.Do(func() { lazy.made.Store(p.build(chosen)) })
	return lazy.made.Load()
}

// trusts reports whether infrastructure rules apply to a stream.
func (p *Program) trusts(labels Labels, opt StreamOptions) bool {
	if namespace := labels["namespace"]; namespace != "" {
		return p.namespaces.Has(namespace)
	}
	if opt.Foreign {
		return p.namespaces.All()
	}
	return !opt.OfPods || labels["pod"] == "" && labels["container"] == "" || p.namespaces.All()
}

func (p *Program) build(chosen []bool) *selection {
	sel := &selection{clock: p.clock, fields: map[string]bool{}}
	var texts []literals.Text
	known := map[literals.Text]int{}
	for i, pt := range p.parts {
		if !chosen[i] {
			continue
		}
		if k := len(sel.rules); pt.role >= 0 && (k == 0 || sel.rules[k-1] != pt.rule) {
			sel.rules = append(sel.rules, pt.rule)
		}
		n := int32(len(sel.parts))
		sel.parts = append(sel.parts, pt)
		for _, name := range pt.fields {
			sel.fields[name] = true
		}
		if len(pt.texts.Texts) == 0 {
			sel.always = append(sel.always, n)
			continue
		}
		if pt.texts.Escapable {
			sel.escaped = append(sel.escaped, n)
		}
		for _, t := range pt.texts.Texts {
			k, ok := known[t]
			if !ok {
				k = len(texts)
				known[t] = k
				texts = append(texts, t)
				sel.users = append(sel.users, nil)
			}
			sel.users[k] = append(sel.users[k], n)
		}
	}
	sel.finder.start(p, texts)
	return sel
}
