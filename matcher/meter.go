package matcher

import (
	"sync/atomic"
	"time"

	"crowsnest/rules"
)

// meter counts the panics of one rule and measures its cost. It is safe for
// concurrent use.
//
// Reading the clock costs as much as a cheap try, so tries are sampled: of lines
// shorter than longLine, a random one in mask+1 is timed and counted mask+1 times. The
// cheaper the rule, the larger the mask. Long lines are rare and cost the most: each is
// timed.
type meter struct {
	state atomic.Int32  // panics, or costly
	mask  atomic.Uint32 // a power of two less one
	mean  atomic.Int64  // moving average of a sampled try, in ns
	tries atomic.Int64
	spent atomic.Int64 // ns
}

const (
	// maxPanics is how often the evaluation of a rule may panic before the whole rule
	// is quarantined. If only one of its parts were, the others would conclude wrongly.
	maxPanics = 3
	// costly is the state of a rule that is quarantined because of its cost.
	costly = 1 << 20

	longLine = 4 << 10
	maxMask  = 63 // at most six bits: see draw
	// worthTiming is the evaluation time wanted per reading of the clock, in ns. A
	// reading takes about 50.
	worthTiming = 4096
)

func (m *meter) quarantined() bool { return m.state.Load() >= maxPanics }

// draw returns how many tries the next one stands for; 0 means that it is not timed.
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

// add records a timed try that stands for weight tries. The excess over limit is not
// counted: the machine was suspended, or the thread was not scheduled.
func (m *meter) add(took, limit time.Duration, weight int64, length int) {
	ns := int64(max(0, min(took, limit)))
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
	m.mean.Store(mean) // a lost concurrent update only makes the average less smooth
	mask := uint32(0)
	for mask < maxMask && mean*int64(mask+1) < worthTiming {
		mask = mask<<1 | 1
	}
	m.mask.Store(mask)
}

// maxTry is an upper bound of the time of one try on a line of length bytes: the worst
// case of the rule's expressions, and a generous allowance for the rest.
func maxTry(r *rules.Rule, length int) time.Duration {
	return 50*time.Microsecond + time.Duration(length)*(100*time.Nanosecond+r.MaxLineTime()/MaxLine)
}

// Cost is the time spent evaluating one rule.
type Cost struct {
	Rule *rules.Rule
	// Tries counts evaluations of the rule's parts on lines, and Spent is the time that
	// they took. Both are estimates from samples and never decrease.
	Tries int64
	Spent time.Duration
}

// Costs returns the cost of each rule so far, in order of the rules. All are zero if
// the program was compiled without a stopwatch.
func (p *Program) Costs() []Cost {
	out := make([]Cost, len(p.rules))
	for i, r := range p.rules {
		out[i] = Cost{Rule: r, Tries: p.meters[i].tries.Load(), Spent: time.Duration(p.meters[i].spent.Load())}
	}
	return out
}

// Reason is why a rule is quarantined.
type Reason string

// The reasons.
const (
	ReasonPanic Reason = "panic" // its evaluation panicked several times
	ReasonCost  Reason = "cost"  // the rule took too much CPU time
)

// Quarantined is a rule that is no longer evaluated.
type Quarantined struct {
	Rule   *rules.Rule
	Reason Reason
}

// Quarantined returns the rules that are no longer evaluated, in order of the rules.
func (p *Program) Quarantined() []Quarantined {
	var out []Quarantined
	for i, r := range p.rules {
		switch state := p.meters[i].state.Load(); {
		case state >= costly:
			out = append(out, Quarantined{r, ReasonCost})
		case state >= maxPanics:
			out = append(out, Quarantined{r, ReasonPanic})
		}
	}
	return out
}

// Quarantine stops the evaluation of a rule. Lines that are being evaluated are
// evaluated to the end. A panic does not replace an earlier reason. It does nothing if
// the program does not have the rule.
func (p *Program) Quarantine(r *rules.Rule, why Reason) {
	for i := range p.rules {
		switch m := &p.meters[i]; {
		case p.rules[i] != r:
		case why == ReasonCost:
			m.state.Store(costly)
		case !m.quarantined():
			m.state.Store(maxPanics)
		}
	}
}

// Inherit copies the counters of old: rules keep their cost by name, and a rule whose
// semantics are unchanged stays quarantined. Neither program may be in use during the
// call.
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
