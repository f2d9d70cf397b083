package matcher

import (
	"slices"
	"sync"
	"sync/atomic"

	"crowsnest/internal/literals"
	"crowsnest/matcher/internal/prefilter"
)

const (
	// liveSample is the number of bytes of its streams' lines that a selection keeps. livePart is the maximum number of
	// bytes from one block, so that the sample has lines of several streams.
	liveSample = 128 << 10
	livePart   = 16 << 10
	// quickBytes is the number of bytes after which the quickly built prefilter of a selection is replaced.
	quickBytes = 4 << 20
	// learning is the maximum number of selections that keep lines at the same time. worthTuning is the minimum number
	// of texts of a selection that keeps lines.
	learning    = 16
	worthTuning = 20
	// maxServed is the maximum number of streams that a program remembers for the next program.
	maxServed = 4096
)

// finder holds the sieve of a selection. Its first prefilter is built quickly, because many streams, such as a short
// log, end before a better prefilter would pay off. Tune replaces this first prefilter with one for the lines of the
// streams themselves. If many bytes are read before Tune can do so, replaceFirst replaces the first prefilter with one
// for the usual sample.
type finder struct {
	parts []*part
	sieve atomic.Pointer[sieve]
	quick atomic.Int64 // number of bytes until the first prefilter is replaced; negative after that

	full  atomic.Bool // whether no more lines are needed
	mu    sync.Mutex
	lines []byte // lines for Tune; nil if no lines are kept
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
			return // too many finders keep lines; a later call may succeed
		}
		f.lines = make([]byte, 0, liveSample+livePart+len(p.sample.usualLines()))
	}
	f.lines = append(f.lines, block[:min(len(block), livePart)]...)
	if len(f.lines) >= liveSample {
		f.full.Store(true)
		p.untuned.Add(1)
	}
}

// Tune rebuilds sieves for the lines that were read, if there are enough lines. It chooses texts that are rare in these
// lines, and prefilters that are fast on them. It makes scans faster and never changes results. With thousands of rules
// it takes some tenths of a second. If there is nothing to do, it returns immediately. It is safe to call while the
// program is in use.
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
	// The usual sample is used too, because lines that are rare now may become frequent again.
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

// noteServed remembers a stream for the next program. The caller must hold mu.
func (p *Program) noteServed(labels Labels, opt StreamOptions) {
	s := served{labels, opt}
	if len(p.served) < maxServed {
		p.served = append(p.served, s)
		return
	}
	p.served[p.nextServed] = s
	p.nextServed = (p.nextServed + 1) % maxServed
}

// Prepare builds the selections for the streams with which old was recently used, so that the first lines after a
// change of rules do not wait. It returns when the selections are built. Both programs may be in use during the call.
func (p *Program) Prepare(old *Program) {
	old.mu.Lock()
	streams := slices.Clone(old.served)
	old.mu.Unlock()
	for _, s := range streams {
		p.selection(s.labels, s.opt)
	}
}
