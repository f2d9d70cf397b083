package matcher

import (
	"slices"
	"sync"
	"sync/atomic"

	"crowsnest/internal/literals"
	"crowsnest/matcher/internal/prefilter"
)

const (
	// liveSample is how many bytes of the lines of its streams a selection keeps,
	// and livePart how many of one block at most: several streams should have
	// their share.
	liveSample = 128 << 10
	livePart   = 16 << 10
	// quickBytes is how much the first prefilter of a selection reads at most.
	quickBytes = 4 << 20
	// learning is how many selections keep lines at the same time, and worthTuning
	// how many texts they look for at least.
	learning    = 16
	worthTuning = 20
	// maxServed is how many streams a program remembers for the one that follows.
	maxServed = 4096
)

// finder holds the sieve of a selection. The first prefilter is built quickly: many streams,
// such as those of a short log, end before a better one would have paid off. Tune replaces
// it by one for lines of the streams themselves, or, where that takes long, settle by one
// for a sample of controllers' lines.
type finder struct {
	parts []*part // parts of the selection
	sieve atomic.Pointer[sieve]
	quick atomic.Int64 // bytes that the first prefilter may still read

	full  atomic.Bool // no more lines are wanted, for now
	mu    sync.Mutex
	lines []byte // nil if none are kept
}

// start makes the first sieve.
func (f *finder) start(p *Program, parts []*part) {
	f.parts = parts
	f.quick.Store(quickBytes)
	v := sieveOf(parts, func(pt *part) literals.Choice { return pt.texts })
	f.sieve.Store(v.with(prefilter.Quick(v.texts, p.sample.lines)))
}

// settle replaces the first prefilter once it has read enough.
func (f *finder) settle(p *Program, n int) {
	if f.quick.Load() < 0 {
		return
	}
	first := f.sieve.Load()
	if left := f.quick.Add(-int64(n)); left < 0 && left >= -int64(n) {
		f.sieve.CompareAndSwap(first, first.with(prefilter.New(first.texts, p.sample.lines)))
	}
}

// learn keeps some of a block, until there is enough.
func (f *finder) learn(p *Program, block []byte) {
	f.settle(p, len(block))
	if f.full.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.full.Load():
		return
	case len(f.sieve.Load().texts) < worthTuning:
		f.full.Store(true)
		return
	case f.lines == nil:
		if p.learners.Add(1) > learning {
			p.learners.Add(-1)
			return // another time
		}
		f.lines = make([]byte, 0, liveSample+livePart+len(p.sample.usual()))
	}
	f.lines = append(f.lines, block[:min(len(block), livePart)]...)
	if len(f.lines) >= liveSample {
		f.full.Store(true)
		p.untuned.Add(1)
	}
}

// Tune rebuilds sieves for the lines that were read, once there are enough of them: it
// chooses the texts that are rare in them, and prefilters that are fast on them. It makes scans faster and changes no result. With thousands of rules it takes up to
// some tenths of a second; if there is nothing to do it returns at once. It may be called
// while the program is in use.
func (p *Program) Tune() {
	if p.untuned.Load() == 0 {
		return
	}
	p.mu.Lock()
	all := make([]*lazySelection, 0, len(p.selections))
	for _, lazy := range p.selections {
		all = append(all, lazy)
	}
	p.mu.Unlock()
	for _, lazy := range all {
		if sel := lazy.made.Load(); sel != nil {
			sel.finder.tune(p)
		}
	}
}

func (f *finder) tune(p *Program) {
	var lines []byte
	f.mu.Lock()
	if f.full.Load() {
		lines, f.lines = f.lines, nil
	}
	f.mu.Unlock()
	if lines == nil {
		return
	}
	// Lines that are rare now may return: the usual sample counts too.
	f.quick.Store(-1)
	live := sampleOf(append(lines, p.sample.usual()...))
	v := sieveOf(f.parts, live.rechoose)
	v.findBranches(f.parts, live.choose)
	f.sieve.Store(v.with(prefilter.New(v.texts, live.lines)))
	p.untuned.Add(-1)
	p.learners.Add(-1)
}

// served is a stream that a program has been used with.
type served struct {
	labels Labels
	opt    StreamOptions
}

// noteServed remembers a stream. The caller holds mu.
func (p *Program) noteServed(labels Labels, opt StreamOptions) {
	s := served{labels, opt}
	if len(p.served) < maxServed {
		p.served = append(p.served, s)
		return
	}
	p.served[p.nextServed] = s
	p.nextServed = (p.nextServed + 1) % maxServed
}

// Prepare builds the selections for the streams that old was recently used with, so that
// the first lines after a change of rules do not wait for them. It blocks until they are
// built. Both programs may be in use during the call.
func (p *Program) Prepare(old *Program) {
	old.mu.Lock()
	streams := slices.Clone(old.served)
	old.mu.Unlock()
	for _, s := range streams {
		p.selection(s.labels, s.opt)
	}
}
