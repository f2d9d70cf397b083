package matcher

import (
	"sync/atomic"
	"time"

	"crowsnest/rules"
)

// meter is what a program remembers of one rule while it runs: how often its
// evaluation panicked, and what it cost. It is safe for concurrent use.
//
// Not every try is timed, because looking at the clock costs as much as a cheap
// try. Of lines shorter than longLine one in mask+1 is, drawn by lot and counted
// so many times; the cheaper a rule is the fewer. Long lines are rare and cost
// the most: each is timed.
type meter struct {
	state atomic.Int32  // panics, or costly
	mask  atomic.Uint32 // a power of two less one
	mean  atomic.Int64  // ns of a try, of those that were drawn lately
	tries atomic.Int64
	spent atomic.Int64 // ns
}

const (
	// maxPanics is how often the evaluation of a rule may panic before the rule
	// is given up. One with a part that is not evaluated would tell what is
	// false, so all of its parts are.
	maxPanics = 3
	// costly is the state of a rule that GiveUp has ended.
	costly = 1 << 20

	longLine = 4 << 10
	maxMask  = 63 // at most six bits: see draw
	// worthTiming is how much evaluation there should be per look at the clock,
	// in ns. A look takes about 50.
	worthTiming = 4096
)

func (m *meter) givenUp() bool { return m.state.Load() >= maxPanics }

// draw tells for how many tries the next one stands; 0: it is not timed.
func (sc *scratch) draw(m *meter, length int) int64 {
	if length >= longLine {
		return 1
	}
	mask := m.mask.Load()
	sc.dice = sc.dice*6364136223846793005 + 1442695040888963407
	if uint32(sc.dice>>58)&mask != 0 { // the highest bits are the most random
		return 0
	}
	return int64(mask) + 1
}

// add notes a try that took so long and stands for so many. It cannot have taken
// longer than most: what is beyond that is a machine that slept, or a thread
// that waited for its turn.
func (m *meter) add(took, most time.Duration, weight int64, length int) {
	ns := int64(max(0, min(took, most)))
	m.tries.Add(weight)
	m.spent.Add(ns * weight)
	if length >= longLine {
		return
	}
	mean := m.mean.Load()
	if mean == 0 {
		mean = ns
	} else {
		mean += (ns - mean) / 16
	}
	m.mean.Store(mean) // another's may get lost, which only makes it less smooth
	mask := uint32(0)
	for mask < maxMask && mean*int64(mask+1) < worthTiming {
		mask = mask<<1 | 1
	}
	m.mask.Store(mask)
}

// most is the longest that one try of a rule can take for a line of so many
// bytes: what its expressions may take, and generously the rest.
func most(r *rules.Rule, length int) time.Duration {
	return 50*time.Microsecond + time.Duration(length)*(100*time.Nanosecond+r.MaxLineTime/MaxLine)
}

// Cost is what the evaluation of one rule took.
type Cost struct {
	Rule *rules.Rule
	// Tries is on how many lines one of its parts was tried, and Spent how long
	// that took. Both are estimates from samples and never fall.
	Tries int64
	Spent time.Duration
}

// Costs returns what each rule cost so far, in order of the rules; all zero if
// the program was compiled without a stopwatch.
func (p *Program) Costs() []Cost {
	out := make([]Cost, len(p.rules))
	for i, r := range p.rules {
		out[i] = Cost{Rule: r, Tries: p.meters[i].tries.Load(), Spent: time.Duration(p.meters[i].spent.Load())}
	}
	return out
}

// Reason says why a rule is not evaluated any more.
type Reason string

// The reasons.
const (
	ReasonPanic Reason = "panic" // its evaluation panicked several times
	ReasonCost  Reason = "cost"  // GiveUp was told
)

// GivenUp is a rule that is not evaluated any more.
type GivenUp struct {
	Rule   *rules.Rule
	Reason Reason
}

// GivenUp returns the rules that are not evaluated any more, in order of the
// rules.
func (p *Program) GivenUp() []GivenUp {
	var out []GivenUp
	for i, r := range p.rules {
		switch state := p.meters[i].state.Load(); {
		case state >= costly:
			out = append(out, GivenUp{r, ReasonCost})
		case state >= maxPanics:
			out = append(out, GivenUp{r, ReasonPanic})
		}
	}
	return out
}

// GiveUp ends the evaluation of a rule because of its cost. Lines that are being
// evaluated are evaluated to their end. A rule that the program does not have
// changes nothing.
func (p *Program) GiveUp(r *rules.Rule) {
	for i := range p.rules {
		if p.rules[i] == r {
			p.meters[i].state.Store(costly)
		}
	}
}

// Quarantine ends the evaluation of a rule because it panicked elsewhere, as
// GiveUp does because of its cost.
func (p *Program) Quarantine(r *rules.Rule) {
	for i := range p.rules {
		if p.rules[i] == r && !p.meters[i].givenUp() {
			p.meters[i].state.Store(maxPanics)
		}
	}
}

// Inherit goes on where old ends: rules of the same name go on counting what
// they cost, and of those that mean the same, what was given up stays given up.
// Neither program may be in use meanwhile.
func (p *Program) Inherit(old *Program) {
	before := map[string]int{}
	for i, r := range old.rules {
		before[r.Alert] = i
	}
	for i, r := range p.rules {
		k, ok := before[r.Alert]
		if !ok {
			continue
		}
		from, to := &old.meters[k], &p.meters[i]
		to.tries.Store(from.tries.Load())
		to.spent.Store(from.spent.Load())
		if old.rules[k].Hash == r.Hash {
			to.state.Store(from.state.Load())
			to.mean.Store(from.mean.Load())
			to.mask.Store(from.mask.Load())
		}
	}
}
