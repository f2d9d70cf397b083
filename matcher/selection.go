package matcher

import (
	"sync"
	"sync/atomic"
	"time"

	"crowsnest/rules"
)

// maxSelections is the maximum number of selections that a program caches. A full cache is emptied. Streams keep their
// selections.
const maxSelections = 1024

// selection is the prepared set of parts that may apply to a stream. Streams with the same parts share it. It is
// immutable except for its finder.
type selection struct {
	rules []*rules.Rule // rules that have a step among the parts
	parts []*part

	finder finder
	// fields are the names of the fields that the conditions use.
	fields map[string]bool

	clock func() time.Duration
}

type lazySelection struct {
	once sync.Once
	made atomic.Pointer[selection]
}

// chooseRules finds the selection for the stream, once for each program.
func (s *Stream) chooseRules(p *Program) {
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
	wanted := make([]bool, len(p.selectors))
	for i, from := range p.selectors {
		wanted[i] = opt.Lenient && from.MayMatch(labels) || from.Matches(labels, false)
	}
	trusted := p.trustsStream(labels, opt)
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
	lazy.once.Do(func() { lazy.made.Store(p.buildSelection(chosen)) })
	return lazy.made.Load()
}

// trustsStream reports whether infrastructure rules apply to a stream.
func (p *Program) trustsStream(labels Labels, opt StreamOptions) bool {
	if namespace := labels["namespace"]; namespace != "" {
		return p.namespaces.Has(namespace)
	}
	if opt.Foreign {
		return p.namespaces.All()
	}
	return !opt.OfPods || labels["pod"] == "" && labels["container"] == "" || p.namespaces.All()
}

func (p *Program) buildSelection(chosen []bool) *selection {
	sel := &selection{clock: p.clock, fields: map[string]bool{}}
	for i, pt := range p.parts {
		if !chosen[i] {
			continue
		}
		if k := len(sel.rules); pt.role >= 0 && (k == 0 || sel.rules[k-1] != pt.rule) {
			sel.rules = append(sel.rules, pt.rule)
		}
		sel.parts = append(sel.parts, pt)
		for _, name := range pt.fields {
			sel.fields[name] = true
		}
	}
	sel.finder.makeFirst(p, sel.parts)
	return sel
}
