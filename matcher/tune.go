package matcher

import (
	"slices"
	"sync"
	"sync/atomic"

	"crowsnest/internal/literals"
	"crowsnest/matcher/internal/prefilter"
)

const (
	// liveSample is the number of bytes that a selection keeps of its streams' lines. livePart
	// is the largest part of it from one block, so that several streams are represented.
	liveSample = 128 << 10
	livePart   = 16 << 10
	// quickBytes is the number of bytes after which the first prefilter of a selection is
	// replaced.
	quickBytes = 4 << 20
	// learning is the number of selections that may keep lines at the same time. worthTuning is
	// the least number of texts for which they do.
	learning    = 16
	worthTuning = 20
	// maxServed is the number of streams that a program remembers for the next program.
	maxServed = 4096
)

// finder holds the sieve of a selection. The first prefilter is built quickly, because many
// streams, such as those of a short log, end before a better one would pay off. Tune replaces
// it with one for lines of the streams themselves. If that takes long, replaceFirst uses one
// for a sample of controllers' lines.
type finder struct {
	parts []*part // parts of the selection
	sieve atomic.Pointer[sieve]
	quick atomic.Int64 // number of bytes that the first prefilter may still read

	full  atomic.Bool // whether no more lines are wanted for now
	mu    sync.Mutex
	lines []byte // nil if no lines are kept
}

func (f *finder) makeFirst(p *Program, parts []*part) {
	f.parts = parts
	f.quick.Store(quickBytes)
	v := newSieve(parts, func(pt *part) literals.Choice { return pt.texts })
	f.sieve.Store(v.withFilter(prefilter.NewQuick(v.texts, p.sample.lines)))
}

func (f *finder) replaceFirst(p *Program, n int) {
	if f.quick.Load() < 0 {
		return
	}
	first := f.sieve.Load()
	if left := f.quick.Add(-int64(n)); left < 0 && left >= -int64(n) {
		f.sieve.CompareAndSwap(first, first.withFilter(prefilter.New(first.texts, p.sample.lines)))
	}
}

func (f *finder) keepSample(p *Program, block []byte) {
	f.replaceFirst(p, len(block))
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
			return // the limit is reached; a later call may keep lines
		}
		f.lines = make([]byte, 0, liveSample+livePart+len(p.sample.usualLines()))
	}
	f.lines = append(f.lines, block[:min(len(block), livePart)]...)
	if len(f.lines) >= liveSample {
		f.full.Store(true)
		p.untuned.Add(1)
	}
}

// Tune rebuilds sieves for the lines that were read, if there are enough of them. It chooses
// the texts that are rare in these lines, and prefilters that are fast on them. It makes scans
// faster and never changes results. With thousands of rules it takes some tenths of a second.
// If there is nothing to do, it returns immediately. It may be called while the program is in
// use.
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
			sel.finder.rebuild(p)
		}
	}
}

func (f *finder) rebuild(p *Program) {
	var lines []byte
	f.mu.Lock()
	if f.full.Load() {
		lines, f.lines = f.lines, nil
	}
	f.mu.Unlock()
	if lines == nil {
		return
	}
	// lines that are rare now may return, so the usual sample is used too
	f.quick.Store(-1)
	live := newLineSample(append(lines, p.sample.usualLines()...))
	v := newSieve(f.parts, live.chooseAgain)
	v.findBranches(f.parts, live.chooseRarest)
	f.sieve.Store(v.withFilter(prefilter.New(v.texts, live.lines)))
	p.untuned.Add(-1)
	p.learners.Add(-1)
}

type served struct {
	labels Labels
	opt    StreamOptions
}

// noteServed remembers a stream. The caller must hold mu.
func (p *Program) noteServed(labels Labels, opt StreamOptions) {
	s := served{labels, opt}
	if len(p.served) < maxServed {
		p.served = append(p.served, s)
		return
	}
	p.served[p.nextServed] = s
	p.nextServed = (p.nextServed + 1) % maxServed
}

// Prepare builds the selections for the streams with which old was recently used, so that the
// first lines after a change of rules do not wait for them. It returns when they are built.
// Both programs may be in use during the call.
func (p *Program) Prepare(old *Program) {
	old.mu.Lock()
	streams := slices.Clone(old.served)
	old.mu.Unlock()
	for _, s := range streams {
		p.selection(s.labels, s.opt)
	}
}
